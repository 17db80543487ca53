// Goal:   a report names the simulated setup, its figures agree with each other, and an error names
//         the wrong option.
// Method: small workloads through the public interface. The other tests of this folder test the
//         results of replays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "attndb/tiers.h"
#include "testing/temp_dir.h"

namespace attndb {
namespace {

using ::testing::HasSubstr;

SimulateOptions Small() {
  SimulateOptions options;
  options.num_conversations = 300;
  options.memory_bytes = {20'000'000'000};
  options.disk_bytes = {100'000'000'000};
  return options;
}

SimulateReport Simulated(const SimulateOptions& options) {
  const Result<SimulateReport> report = Simulate(options);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : SimulateReport();
}

TEST(SimulateTest, EachMemoryDiskAndPolicyIsARun) {
  SimulateOptions options = Small();
  options.memory_bytes = {0, 20'000'000'000};
  options.disk_bytes = {0, 100'000'000'000};
  options.policies = {"none", "attndb(bytes=1)"};
  const SimulateReport report = Simulated(options);
  ASSERT_EQ(report.runs.size(), 8u);
  EXPECT_EQ(report.num_conversations, 300u);
  EXPECT_EQ(report.workload, "300 synthetic conversations of ShareGPT's shape");
  EXPECT_EQ(report.runs[5].policy, "attndb(bytes=1)");
  EXPECT_EQ(report.runs[5].memory_bytes, 20'000'000'000u);
  EXPECT_EQ(report.runs[5].disk_bytes, 0u);
  for (const SimulatedRun& run : report.runs) {
    const bool keeps = run.policy != "none" && run.memory_bytes + run.disk_bytes > 0;
    EXPECT_EQ(run.hit_rate > 0, keeps);
    EXPECT_NEAR(run.hit_rate, run.memory_hit_rate + run.disk_hit_rate, 1e-12);
    EXPECT_GE(run.return_hit_rate, run.hit_rate);
    EXPECT_EQ(run.bound_hit_rate, -1);
  }
  EXPECT_GT(report.runs[7].hit_rate, report.runs[5].hit_rate);  // A disk helps.
}

TEST(SimulateTest, MoneyIsHoursTimesPrices) {
  SimulateOptions options = Small();
  options.policies = {"lru"};
  options.gpu_dollars = 3;
  options.memory_gb_dollars = 0.5;
  options.disk_gb_dollars = 0.25;
  const SimulateReport report = Simulated(options);
  const SimulatedRun& run = report.runs.front();
  EXPECT_NEAR(run.storage_dollars, run.hours * (20 * 0.5 + 100 * 0.25), 1e-9);
  EXPECT_NEAR(run.dollars, run.storage_dollars + run.hours * 2 * 3, 1e-9);
  EXPECT_NEAR(run.dollars_per_thousand_turns,
              run.dollars / static_cast<double>(report.num_counted) * 1000, 1e-9);
  EXPECT_NEAR(run.turns_per_second * run.hours * 3600, static_cast<double>(report.num_counted),
              1e-6);
  EXPECT_LE(run.gpu_hours, 2 * run.hours + 1e-9);
}

TEST(SimulateTest, SeedsAreAveraged) {
  SimulateOptions options = Small();
  options.policies = {"attention_store"};
  options.num_seeds = 3;
  const SimulateReport all = Simulated(options);
  EXPECT_EQ(all.num_seeds, 3u);
  EXPECT_GT(all.runs.front().hit_deviation, 0);
  options.num_seeds = 1;
  double sum = 0;
  for (options.seed = 1; options.seed <= 3; ++options.seed) {
    const SimulateReport one = Simulated(options);
    EXPECT_EQ(one.runs.front().hit_deviation, 0);
    sum += one.runs.front().hit_rate;
  }
  EXPECT_NEAR(all.runs.front().hit_rate, sum / 3, 1e-12);
}

TEST(SimulateTest, BeladyIsTheBoundOfEachPolicy) {
  SimulateOptions options = Small();
  options.bound = true;
  const SimulateReport report = Simulated(options);
  for (const SimulatedRun& run : report.runs) {
    EXPECT_GE(run.bound_hit_rate, run.hit_rate - 0.01) << run.policy;
  }
  EXPECT_EQ(report.runs[0].bound_hit_rate, report.runs[1].bound_hit_rate);  // Neither cuts.
  EXPECT_THAT(report.ToText(), HasSubstr("Belady"));
}

TEST(SimulateTest, AModelIsNamedOrDescribed) {
  SimulateOptions options = Small();
  options.model = "70b";
  options.window_tokens = 8192;
  const SimulateReport named = Simulated(options);
  EXPECT_EQ(named.model.kv_bytes_per_token, 327'680u);
  EXPECT_EQ(named.model.window_tokens, 8192u);
  EXPECT_EQ(named.model.num_gpus, 4u);
  options = Small();
  options.model = "";
  options.kv_bytes_per_token = 1000;
  options.window_tokens = 100;
  options.prefill_tokens_per_second = 10;
  options.decode_seconds = 2;
  options.num_gpus = 1;
  EXPECT_EQ(Simulated(options).model.decode_seconds, 2);
  options.num_gpus = 0;
  EXPECT_THAT(Simulate(options).status().message(), HasSubstr("num_gpus: expected 1 to 1e+06"));
}

TEST(SimulateTest, ATraceIsReplayed) {
  const test::TempDir dir;
  SimulateOptions options = Small();
  options.trace = dir.path() + "/trace.jsonl";
  options.warm_up_share = 0;
  options.policies = {"lru"};
  std::ofstream(options.trace) << R"({"time":1,"conversation":"a","new_tokens":9,"answer_tokens":1}
{"time":100,"conversation":"a","new_tokens":9,"answer_tokens":1})";
  const SimulateReport report = Simulated(options);
  EXPECT_EQ(report.num_turns, 2u);
  EXPECT_EQ(report.workload, "1 conversations of " + options.trace);
  EXPECT_EQ(report.runs.front().memory_hit_rate, 0.5);

  options.memory_bytes = {1000};
  options.disk_bytes = {1000};
  EXPECT_THAT(Simulate(options).status().message(),
              HasSubstr("trace.jsonl line 1: expected a conversation that a tier can hold"));
}

TEST(SimulateTest, ProgressEndsAtTheTotalAndCancels) {
  SimulateOptions options = Small();
  options.bound = true;
  uint64_t last = 0;
  uint64_t total = 0;
  options.progress = [&](uint64_t done, uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
    return true;
  };
  const SimulateReport report = Simulated(options);
  EXPECT_EQ(total, (4 + 2 * 2) * report.num_turns);  // Belady's with and without `cut`.
  EXPECT_EQ(last, total);
  options.progress = [](uint64_t, uint64_t) { return false; };
  EXPECT_EQ(Simulate(options).status().code(), StatusCode::kCancelled);
}

TEST(SimulateTest, WhatIsAskedForWronglyIsNamed) {
  const auto message = [](auto change) {
    SimulateOptions options = Small();
    change(&options);
    const Result<SimulateReport> report = Simulate(options);
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(report.status().code(), StatusCode::kInvalidArgument);
    return report.status().message();
  };
  using Options = SimulateOptions*;
  EXPECT_THAT(message([](Options o) { o->model = "7b"; }), HasSubstr("model: expected 13b"));
  EXPECT_THAT(message([](Options o) { o->policies = {}; }), HasSubstr("policies: expected"));
  EXPECT_THAT(message([](Options o) { o->policies = {"lfu"}; }), HasSubstr("'lfu'"));
  EXPECT_THAT(message([](Options o) { o->memory_bytes = {}; }), HasSubstr("memory_bytes"));
  EXPECT_THAT(message([](Options o) { o->disk_bytes = {uint64_t{1} << 61}; }),
              HasSubstr("disk_bytes: expected at most 2^60 bytes"));
  EXPECT_THAT(message([](Options o) { o->num_conversations = 0; }),
              HasSubstr("num_conversations: expected 1 to 1e+07, found 0"));
  EXPECT_THAT(message([](Options o) { o->conversations_per_second = 0; }),
              HasSubstr("conversations_per_second"));
  EXPECT_THAT(message([](Options o) { o->think_seconds = -1; }), HasSubstr("think_seconds"));
  EXPECT_THAT(message([](Options o) { o->turn_tokens = 0; }), HasSubstr("turn_tokens"));
  EXPECT_THAT(message([](Options o) { o->new_token_share = 1.5; }), HasSubstr("new_token_share"));
  EXPECT_THAT(message([](Options o) { o->num_seeds = 0; }), HasSubstr("num_seeds"));
  EXPECT_THAT(message([](Options o) {
                o->num_conversations = 10'000'000;
                o->num_seeds = 2;
              }),
              HasSubstr("num_seeds times num_conversations: expected 1 to 1e+07, found 2e+07"));
  EXPECT_THAT(message([](Options o) { o->warm_up_share = 1; }), HasSubstr("warm_up_share"));
  EXPECT_THAT(message([](Options o) { o->disk_bytes_per_second = 0; }),
              HasSubstr("disk_bytes_per_second"));
  EXPECT_THAT(message([](Options o) { o->gpu_dollars = std::numeric_limits<double>::quiet_NaN(); }),
              HasSubstr("gpu_dollars: expected 0 to 1e+09, found nan"));
  EXPECT_THAT(message([](Options o) { o->kv_bytes_per_token = uint64_t{1} << 50; }),
              HasSubstr("kv_bytes_per_token"));
  EXPECT_THAT(message([](Options o) { o->memory_bytes.resize(20'000); }),
              HasSubstr("at most 10,000 together"));
}

TEST(SimulateTest, TextAndJsonSayTheSame) {
  SimulateOptions options = Small();
  options.policies = {"lru"};
  const SimulateReport report = Simulated(options);
  const auto json = nlohmann::json::parse(report.ToJson());
  EXPECT_EQ(json["model"]["name"], "13b");
  EXPECT_EQ(json["runs"].size(), 1u);
  EXPECT_EQ(json["runs"][0]["hit_rate"].get<double>(), report.runs.front().hit_rate);
  const std::string text = report.ToText();
  EXPECT_THAT(text, HasSubstr("13b: 800.0 KiB of KV a token, window of 4,096 tokens, 2 GPUs"));
  EXPECT_THAT(text, HasSubstr("20 GB   100 GB  lru"));
}

}  // namespace
}  // namespace attndb
