// Goal:   times, hits and tokens of a replay equal those of a calculation by hand. At the paper's
//         settings its hit rates are the paper's.
// Method: workloads of a few turns; then one seed of [AS] 4.1's workload against Fig. 21.
//         attndb-bench tiers measures the results of six seeds.
#include "simulate/replay.h"

#include <gtest/gtest.h>

#include <string>

namespace attndb::tier {
namespace {

// 1 byte a token, a window of 100 tokens, 10 ms a token of prefill, 1 s of decoding, 10 B/s.
constexpr ServiceModel kModel = {.kv_bytes_per_token = 1,
                                 .window_tokens = 100,
                                 .prefill_seconds_per_token = 0.01,
                                 .decode_seconds = 1,
                                 .disk_read_bytes_per_second = 10,
                                 .recompute_overflow = false};

ReplayCounts Replayed(const Workload& workload, const std::string& policy, Capacity capacity,
                      ServiceModel service = kModel, uint64_t warm_up = 0) {
  const Result<ReplayCounts> counts = Replay(workload, {.policy = *ParsePolicy(policy),
                                                        .capacity = capacity,
                                                        .service = service,
                                                        .warm_up_turns = warm_up,
                                                        .progress = nullptr});
  EXPECT_TRUE(counts.ok()) << counts.status();
  return *counts;
}

// A conversation of three turns: 10 + 20 tokens each, 5 s of thought.
Workload OneConversation() {
  return {.conversations = {{0, 3}},
          .turns = {{.not_before = 2, .pause = 0, .new_tokens = 10, .answer_tokens = 20},
                    {.not_before = 0, .pause = 5, .new_tokens = 10, .answer_tokens = 20},
                    {.not_before = 0, .pause = 5, .new_tokens = 10, .answer_tokens = 20}}};
}

TEST(ReplayTest, HitsInMemoryComputeNewTokensOnly) {
  const ReplayCounts counts = Replayed(OneConversation(), "lru", {1000, 0});
  EXPECT_EQ(counts.turns, 3u);
  EXPECT_EQ(counts.return_turns, 2u);
  EXPECT_EQ(counts.memory_hits, 2u);
  EXPECT_EQ(counts.disk_hits, 0u);
  EXPECT_EQ(counts.reused_tokens, 30u + 60u);
  EXPECT_EQ(counts.prompt_tokens, 10u + 40u + 70u);
  EXPECT_EQ(counts.answer_tokens, 60u);
  EXPECT_NEAR(counts.prefill_seconds, 3 * 0.1, 1e-9);
  EXPECT_NEAR(counts.seconds, 3 * 1.1 + 2 * 5, 1e-5);  // Thoughts are counted, too.
  EXPECT_EQ(counts.wait_seconds, 0);
}

TEST(ReplayTest, HitsOnDiskWaitForTheDisk) {
  const ReplayCounts counts = Replayed(OneConversation(), "lru", {0, 1000});
  EXPECT_EQ(counts.disk_hits, 2u);
  EXPECT_NEAR(counts.stall_seconds, 3.0 + 6.0, 1e-9);
}

TEST(ReplayTest, MissesComputeTheHistory) {
  const ReplayCounts counts = Replayed(OneConversation(), "none", {1000, 1000});
  EXPECT_EQ(counts.memory_hits + counts.disk_hits, 0u);
  EXPECT_NEAR(counts.prefill_seconds, 0.01 * (10 + 40 + 70), 1e-9);
}

TEST(ReplayTest, AWindowThatIsFullDropsItsOldestHalf) {
  Workload workload = OneConversation();
  workload.turns[0].answer_tokens = 500;  // Stops at 100 tokens.
  const ReplayCounts counts = Replayed(workload, "lru", {1000, 0});
  EXPECT_EQ(counts.overflows, 1u);
  EXPECT_EQ(counts.answer_tokens, 90u + 20 + 20 - 10);  // 50 + 30, then 80 + 10 + 10.
  EXPECT_EQ(counts.reused_tokens, 50u + 80);
  EXPECT_EQ(counts.memory_hits, 2u);

  ServiceModel recomputes = kModel;
  recomputes.recompute_overflow = true;
  const ReplayCounts recomputed = Replayed(workload, "lru", {1000, 0}, recomputes);
  EXPECT_EQ(recomputed.memory_hits, 1u);
  EXPECT_EQ(recomputed.reused_tokens, 80u);

  const ReplayCounts cut = Replayed(workload, "lru(cut=1)", {1000, 0});
  EXPECT_EQ(cut.reused_tokens, counts.reused_tokens);  // Nothing is lost.
  EXPECT_EQ(cut.saved_bytes, counts.saved_bytes - 2 * 50);
}

TEST(ReplayTest, APromptThatDoesNotFitDropsHistory) {
  Workload workload = OneConversation();
  workload.turns[0].answer_tokens = 80;  // 90, and 15 more do not fit.
  workload.turns[1].new_tokens = 15;
  EXPECT_EQ(Replayed(workload, "lru", {1000, 0}).reused_tokens, 40u + 75);
  workload.turns[1].new_tokens = 1'000'000;  // A prompt that the window does not hold.
  EXPECT_EQ(Replayed(workload, "lru", {1000, 0}).prompt_tokens, 10u + 100 + 60);
}

TEST(ReplayTest, JobsWaitForThoseBeforeThem) {
  const Turn turn = {.not_before = 1, .pause = 0, .new_tokens = 10, .answer_tokens = 1};
  const Workload workload = {.conversations = {{0, 1}, {1, 1}, {2, 1}},
                             .turns = {turn, turn, turn}};
  const ReplayCounts counts = Replayed(workload, "lru", {1000, 0});
  EXPECT_NEAR(counts.wait_seconds, 1.1 + 2.2, 1e-9);
  EXPECT_NEAR(counts.longest_first_wait_seconds, 2.2, 1e-9);
  EXPECT_EQ(counts.queued_jobs, 2 + 1 + 0);
  EXPECT_NEAR(Replayed(workload, "lru", {1000, 0}, kModel, 1).seconds, 2.2, 1e-9);
}

TEST(ReplayTest, AFetchThatHasNotEndedIsWaitedForByWhatIsLeftOfIt) {
  // Conversation 0 has 40 bytes on disk when its second job comes behind that of 1, which takes
  // 1.1 s of the fetch's 4.
  Workload workload = {
      .conversations = {{0, 2}, {2, 1}, {3, 1}},
      .turns = {{.not_before = 0, .pause = 0, .new_tokens = 10, .answer_tokens = 30},
                {.not_before = 5.05, .pause = 0, .new_tokens = 10, .answer_tokens = 1},
                {.not_before = 1.0, .pause = 0, .new_tokens = 10, .answer_tokens = 80},
                {.not_before = 5.0, .pause = 0, .new_tokens = 10, .answer_tokens = 1}}};
  const ReplayCounts counts = Replayed(workload, "attention_store(free=0)", {90, 1000});
  EXPECT_EQ(counts.disk_hits, 1u);
  EXPECT_NEAR(counts.stall_seconds, 4.0, 1e-9);  // No job begins while 0 waits: nothing is fetched.
  workload.turns[1].not_before = 4.9;
  workload.turns[3].not_before = 4.8;
  workload.turns.push_back(workload.turns[3]);
  workload.conversations.push_back({4, 1});
  workload.turns[4].not_before = 4.85;  // Served behind the first: the fetch begins meanwhile.
  const ReplayCounts fetched = Replayed(workload, "attention_store(free=0)", {90, 1000});
  EXPECT_EQ(fetched.disk_hits, 1u);
  EXPECT_NEAR(fetched.stall_seconds, 4.0 - 1.1, 1e-9);
}

TEST(ReplayTest, ACallerMayCancel) {
  const Result<ReplayCounts> counts =
      Replay(OneConversation(), {.policy = {},
                                 .capacity = {},
                                 .service = kModel,
                                 .warm_up_turns = 0,
                                 .progress = [](uint64_t) { return false; }});
  ASSERT_FALSE(counts.ok());
  EXPECT_EQ(counts.status().code(), StatusCode::kCancelled);
}

// [AS] Fig. 21a: LLaMA-13B, 128 GB of memory.
constexpr ServiceModel kLlama13b = {.kv_bytes_per_token = 819'200,
                                    .window_tokens = 4096,
                                    .prefill_seconds_per_token = 0.36 / 2048 * 0.4,
                                    .decode_seconds = 1,
                                    .disk_read_bytes_per_second = 5e9,
                                    .recompute_overflow = false};

TEST(ReplayTest, HitRatesAtThePapersSettingsAreThePapers) {
  const Workload workload = SyntheticWorkload({});
  const struct {
    const char* policy;
    uint64_t disk_terabytes;
    double hit_percent;
  } kFigure[] = {{"lru", 10, 31}, {"fifo", 10, 48}, {"attention_store", 10, 76},
                 {"lru", 2, 4.4}, {"fifo", 2, 9.3}, {"attention_store", 2, 27}};
  for (const auto& [policy, disk_terabytes, hit_percent] : kFigure) {
    const Capacity capacity = {128'000'000'000, disk_terabytes * 1'000'000'000'000};
    const ReplayCounts counts = Replayed(workload, policy, capacity, kLlama13b, 10'000);
    const double hits = static_cast<double>(counts.memory_hits + counts.disk_hits);
    EXPECT_NEAR(100 * hits / static_cast<double>(counts.turns), hit_percent, 4)
        << policy << " with " << disk_terabytes << " TB";
  }
}

}  // namespace
}  // namespace attndb::tier
