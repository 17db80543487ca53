// Goal:   Compact with a length makes segments of that length and changes nothing else: no answer,
//         token or sampled q, no sharing, no open session. Earlier planes and indexes exist again.
// Method: long imports of a toy model, whose segments are counted, and whose answers are compared
//         before and after; cancelled at every step; with builds under way.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <tuple>

#include "api/database.h"
#include "api/db_access.h"
#include "api/db_test_util.h"
#include "session/session_impl.h"
#include "storage/kv/kv_layout.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::IsOk;
using test::Tokens;
using test::ToyModel;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kOrderTolerance = 1e-5;  // The same sums in another order.

class CompactTest : public DBFixture {
 protected:
  explicit CompactTest(bool background_builds = false) : DBFixture(background_builds) {
    Open({.import_segment_tokens = 0});
  }

  // K, V and q of a long prompt, stored in segments of 4096 tokens and the rest.
  Tokens ImportLong(const std::string& name, uint64_t num_tokens, uint64_t seed = 1) {
    const Tokens tokens = ToyModel::Tokens(num_tokens, seed);
    const test::KvArrays kv(model_, tokens);
    std::vector<std::vector<float>> data;
    std::vector<TensorView> queries;
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& shape = model_.spec().layers[layer];
      data.push_back(model_.Queries(layer, tokens, 0));
      queries.push_back(test::ViewOf(data.back(), shape.num_q_heads, shape.head_dim));
    }
    ATTNDB_EXPECT_OK(db_->Import(model_.spec(), tokens, kv.layers(), {.name = name}, queries));
    return tokens;
  }

  std::vector<SegmentInfo> Segments(const std::string& name) const {
    return db_->Describe(name)->segments;
  }
  std::vector<uint64_t> Lengths(const std::string& name) const {
    std::vector<uint64_t> lengths;
    for (const SegmentInfo& segment : Segments(name)) {
      lengths.push_back(segment.num_tokens);
    }
    return lengths;
  }
  std::vector<int64_t> Ids(const std::string& name) const {
    std::vector<int64_t> ids;
    for (const SegmentInfo& segment : Segments(name)) {
      ids.push_back(segment.segment_id);
    }
    return ids;
  }

  std::vector<float> Answer(const Tokens& stored, const std::string& plan = "full") {
    SessionStart start = Start(Concat(stored, Tokens{5}), {.plan = plan});
    EXPECT_EQ(start.session.num_reused(), stored.size());
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    return Probe(&start.session);
  }

  // Layer, head, token of the context, q head and q of every sampled row.
  using Sample = std::tuple<LayerId, uint32_t, uint64_t, uint32_t, std::string>;
  std::vector<Sample> Samples(const std::string& name) const {
    const auto session = *internal::DbAccess::database(*db_)->OpenWhole(db_->tenant(), name);
    const storage::KvShape shape = store::ShapeOf(session->spec());
    std::vector<Sample> samples;
    uint64_t first_token = 0;
    for (const internal::ChainEntry& entry : session->chain().entries()) {
      for (LayerId layer = 0; layer < shape.layers.size(); ++layer) {
        const storage::LayerQueries queries = *entry.segment->ReadQueries(layer);
        const uint64_t row_bytes = storage::KRowBytes(shape, layer);
        for (uint32_t head = 0; head < queries.num_kv_heads(); ++head) {
          const storage::QueryRows& rows = queries.rows(head);
          for (size_t i = 0; i < rows.num_rows(); ++i) {
            std::string q(row_bytes, '\0');
            std::memcpy(q.data(), rows.q + i * row_bytes, row_bytes);
            samples.emplace_back(layer, head, first_token + rows.tokens[i], rows.q_heads[i], q);
          }
        }
      }
      first_token += entry.num_tokens_used;
    }
    std::ranges::sort(samples);
    return samples;
  }

  void ExpectNoOp(const CompactOptions& options, const std::string& name) {
    const std::vector<int64_t> ids = Ids(name);
    const uint64_t bytes_merged = db_->Stats()->bytes_merged;
    ATTNDB_ASSERT_OK(db_->Compact(options));
    EXPECT_EQ(Ids(name), ids);
    EXPECT_EQ(db_->Stats()->bytes_merged, bytes_merged);
  }
  // Expects exactly the files of segments that contexts use.
  void ExpectNoFileTooMany() const {
    ATTNDB_ASSERT_OK(db_->WaitForBackground());  // Sessions release merged segments there.
    EXPECT_EQ(NumSegmentFiles(), 2 * db_->Stats()->num_segments);
  }
};

TEST_F(CompactTest, AnImportEndsWithSegmentsOfTheStoresLength) {
  Open({.import_segment_tokens = 8192});
  ImportLong("a", 9000);
  EXPECT_THAT(Lengths("a"), ElementsAre(8192, 808));
  Open();
  ImportLong("b", 9000, 2);
  EXPECT_THAT(Lengths("b"), ElementsAre(9000));
  EXPECT_EQ(
      DB::Open(dir_.File("other"), {.import_segment_tokens = CompactOptions::kMaxSegmentTokens + 1})
          .status()
          .code(),
      StatusCode::kInvalidArgument);
}

TEST_F(CompactTest, OneContextIsCompactedWithoutTheOthers) {
  ImportLong("a", 9000, 1);
  ImportLong("b", 9000, 2);
  ATTNDB_ASSERT_OK(db_->Compact({.context = "b", .segment_tokens = 65536}));
  EXPECT_THAT(Lengths("a"), ElementsAre(4096, 4096, 808));
  EXPECT_THAT(Lengths("b"), ElementsAre(9000));
  EXPECT_EQ(db_->Compact({.context = "c"}).code(), StatusCode::kNotFound);
}

TEST_F(CompactTest, ALongImportBecomesOneSegmentAndAnswersAsBefore) {
  const Tokens tokens = ImportLong("a", 9000);
  ASSERT_THAT(Lengths("a"), ElementsAre(4096, 4096, 808));
  const std::vector<float> before = Answer(tokens);
  const std::vector<Sample> samples = Samples("a");
  ASSERT_GT(samples.size(), 1000u);
  ExpectNoOp({}, "a");
  ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 9000}));
  EXPECT_THAT(Lengths("a"), ElementsAre(9000));
  EXPECT_EQ(*db_->Tokens("a"), tokens);
  EXPECT_EQ(Samples("a"), samples);
  EXPECT_LT(Difference(Answer(tokens), before), kOrderTolerance);
  EXPECT_TRUE(db_->Verify()->ok());
  ExpectNoFileTooMany();
  ExpectNoOp({.segment_tokens = 9000}, "a");
  Open();
  EXPECT_LT(Difference(Answer(tokens), before), kOrderTolerance);
}

TEST_F(CompactTest, NoSegmentBecomesLongerThanAskedFor) {
  const Tokens tokens = ImportLong("a", 18000);
  const std::vector<float> before = Answer(tokens);
  const auto compact_to = [&](uint64_t segment_tokens) {
    ATTNDB_EXPECT_OK(db_->Compact({.segment_tokens = segment_tokens}));
    ExpectNoOp({.segment_tokens = segment_tokens}, "a");
    EXPECT_LT(Difference(Answer(tokens), before), kOrderTolerance);
    ExpectNoFileTooMany();
    return Lengths("a");
  };
  EXPECT_THAT(compact_to(1), ElementsAre(4096, 4096, 4096, 4096, 1616));
  EXPECT_THAT(compact_to(8191), ElementsAre(4096, 4096, 4096, 5712));
  EXPECT_THAT(compact_to(8192), ElementsAre(8192, 4096, 5712));
  EXPECT_THAT(compact_to(10000), ElementsAre(8192, 9808));
  EXPECT_THAT(compact_to(CompactOptions::kMaxSegmentTokens), ElementsAre(18000));
  EXPECT_THAT(compact_to(100), ElementsAre(18000));  // None is split.
}

TEST_F(CompactTest, ALengthBeyondWhatASegmentCanHaveIsRefused) {
  EXPECT_THAT(
      db_->Compact({.segment_tokens = CompactOptions::kMaxSegmentTokens + 1}),
      FailsWith(StatusCode::kInvalidArgument,
                HasSubstr("segment_tokens: expected at most 2147483648, found 2147483649")));
  EXPECT_EQ(db_->Compact({.segment_tokens = UINT64_MAX}).code(), StatusCode::kInvalidArgument);
  ImportLong("a", 100);
  Open({.read_only = true});
  EXPECT_EQ(db_->Compact({.segment_tokens = 100}).code(), StatusCode::kReadOnly);
}

// The first context uses less of the last shared segment than the second, which is newer.
TEST_F(CompactTest, WhatContextsShareStaysShared) {
  const Tokens trunk = ImportLong("trunk", 9000);
  const Tokens part(trunk.begin(), trunk.begin() + 8500);
  const Tokens shorter = Concat(part, Tokens{5001, 5002, 5003});
  const Tokens longer = Concat(trunk, Tokens{5004, 5005});
  ATTNDB_ASSERT_OK(StoreTokens(shorter, {.name = "shorter"}));
  ATTNDB_ASSERT_OK(StoreTokens(longer, {.name = "longer"}));
  ATTNDB_ASSERT_OK(db_->Drop("trunk"));
  ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 65536}));
  EXPECT_THAT(Lengths("shorter"), ElementsAre(9000, 3));
  EXPECT_THAT(Lengths("longer"), ElementsAre(9000, 2));
  EXPECT_EQ(Ids("shorter")[0], Ids("longer")[0]);
  EXPECT_EQ(db_->Stats()->num_segments, 3u);
  ExpectNoOp({.segment_tokens = 65536}, "shorter");
  ExpectNoOp({.segment_tokens = 65536}, "longer");
  ExpectNoFileTooMany();
  ExpectAnswers(shorter, shorter.size() - 1);
  ExpectAnswers(longer, longer.size() - 1);
  // Nobody uses the end of the shared segment any more.
  ATTNDB_ASSERT_OK(db_->Drop("longer"));
  ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 65536}));
  EXPECT_THAT(Lengths("shorter"), ElementsAre(8503));
  ExpectAnswers(shorter, shorter.size() - 1);
}

TEST_F(CompactTest, AnOpenSessionKeepsItsSegmentsAndCanStore) {
  Tokens tokens = ImportLong("a", 9000);
  {
    Session session = std::move(Start(Concat(tokens, Tokens{5})).session);
    const std::vector<float> before = Probe(&session);
    ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 65536}));
    EXPECT_THAT(Lengths("a"), ElementsAre(9000));
    // The background moves an idle session, so its old files may be gone by now. Files that the
    // background still writes, or is about to remove, do not count.
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    EXPECT_LE(NumSegmentFiles(), 2 * (3u + 1u));
    EXPECT_EQ(Probe(&session), before);
    const Tokens more = ToyModel::Tokens(20, 9);
    ATTNDB_ASSERT_OK(model_.Step(&session, more));
    tokens = Concat(tokens, more);
    ATTNDB_ASSERT_OK(db_->Store(session, tokens, {.name = "a", .replace = true}));
    ExpectOracle(&session, tokens);
  }
  ExpectNoFileTooMany();
  ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 65536}));
  EXPECT_THAT(Lengths("a"), ElementsAre(9020));
  ExpectNoFileTooMany();
  ExpectAnswers(tokens, tokens.size() - 1);
}

TEST_F(CompactTest, ProgressIsToldAndCancelsAtEveryStep) {
  const Tokens a = ImportLong("a", 9000, 1);
  const Tokens b = ImportLong("b", 5000, 2);
  const std::vector<float> before = Answer(a);
  const uint64_t kv_bytes = db_->Describe("a")->kv_bytes + db_->Describe("b")->kv_bytes;
  bool done = false;
  for (uint64_t steps = 0; !done; ++steps) {
    SCOPED_TRACE(steps);
    uint64_t num_calls = 0;
    uint64_t last = 0;
    const Status status = db_->Compact(
        {.segment_tokens = 65536, .progress = [&](uint64_t bytes_done, uint64_t bytes_total) {
           EXPECT_GE(bytes_done, last);
           EXPECT_LE(bytes_done, bytes_total);
           EXPECT_LE(bytes_total, kv_bytes);
           last = bytes_done;
           done = bytes_done == bytes_total;
           return num_calls++ < steps;
         }});
    EXPECT_EQ(status.code(), num_calls > steps ? StatusCode::kCancelled : StatusCode::kOk);
    ExpectNoFileTooMany();
    EXPECT_LT(Difference(Answer(a), before), kOrderTolerance);
    ASSERT_LT(steps, 20u);
  }
  EXPECT_THAT(Lengths("a"), ElementsAre(9000));
  EXPECT_THAT(Lengths("b"), ElementsAre(5000));
  ExpectNoOp({.segment_tokens = 65536}, "b");
  ExpectAnswers(b, b.size() - 1);
}

TEST_F(CompactTest, MemoryForOneLayerIsEnoughAndTooLittleIsSaid) {
  const Tokens tokens = ImportLong("a", 9000);
  const uint64_t layer_bytes = db_->Describe("a")->kv_bytes / model_.spec().num_layers();
  Open({.host_memory_bytes = layer_bytes / 3});
  EXPECT_EQ(db_->Compact({.segment_tokens = 65536}).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Lengths("a").size(), 3u);
  ExpectNoFileTooMany();
  Open({.host_memory_bytes = layer_bytes * 9 / 5});  // Layers differ; sampled q and pages too.
  ATTNDB_EXPECT_OK(db_->Compact({.segment_tokens = 65536}));
  EXPECT_THAT(Lengths("a"), ElementsAre(9000));
}

// A quota counts bytes that contexts use: a copy that replaces its source fits.
TEST_F(CompactTest, AFullQuotaIsNoObstacle) {
  const Tokens tokens = ImportLong("a", 9000);
  ATTNDB_ASSERT_OK(db_->SetQuota(db_->Stats()->file_bytes));
  ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 65536}));
  EXPECT_THAT(Lengths("a"), ElementsAre(9000));
  EXPECT_LE(db_->Stats()->file_bytes, db_->Stats()->quota_bytes);
}

// --- Its progress calls the DB. ---

TEST_F(CompactTest, ProgressThatCallsWhatWaitsForMergesIsRefusedAndNotHung) {
  const Tokens tokens = ImportLong("a", 9000);
  const Tokens other = ToyModel::Tokens(50, 7);
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, other));
  const test::KvArrays kv(model_, other);
  const auto is_refused =
      FailsWith(StatusCode::kFailedPrecondition, HasSubstr("called by the progress of a compact"));
  int num_calls = 0;
  const auto progress = [&](uint64_t, uint64_t) {
    ++num_calls;
    EXPECT_THAT(db_->Compact({}), is_refused);
    EXPECT_THAT(db_->Store(session, other).status(), is_refused);
    EXPECT_THAT(db_->StoreAsync(session, other).status(), is_refused);
    EXPECT_THAT(db_->Import(model_.spec(), other, kv.layers()).status(), is_refused);
    EXPECT_THAT(db_->Drop("a"), is_refused);
    EXPECT_THAT(db_->WaitForBackground(), is_refused);
    // Calls that wait for no merge still work.
    EXPECT_EQ(db_->List()->size(), 1u);
    EXPECT_EQ(db_->Stats()->num_contexts, 1u);
    EXPECT_THAT(db_->CreateSession(model_.spec(), tokens), IsOk());
    EXPECT_THAT(db_->Pin("a"), IsOk());
    return true;
  };
  ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 65536, .progress = progress}));
  EXPECT_GT(num_calls, 1);
  EXPECT_THAT(Lengths("a"), ElementsAre(9000));
  ATTNDB_EXPECT_OK(db_->Store(session, other));  // Afterwards all is as ever.
  ATTNDB_EXPECT_OK(db_->Compact());
}

TEST_F(CompactTest, AStoreThatWaitsForTheCompactIsNotWaitedForByItsProgress) {
  ImportLong("a", 9000);
  const Tokens other = ToyModel::Tokens(50, 7);
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, other));
  std::optional<PendingStore> pending;
  const auto progress = [&](uint64_t, uint64_t) {
    if (!pending) {  // Begun by another thread, while the compact is under way.
      std::thread([&] { pending = *db_->StoreAsync(session, other); }).join();
    }
    EXPECT_THAT(pending->Wait().status(),
                FailsWith(StatusCode::kFailedPrecondition, HasSubstr("wait for a store")));
    EXPECT_THAT(db_->Store(session, other).status(),
                FailsWith(StatusCode::kFailedPrecondition, HasSubstr("store: called by")));
    return true;
  };
  ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 65536, .progress = progress}));
  ASSERT_TRUE(pending);
  EXPECT_THAT(pending->Wait(), IsOk());
}

TEST_F(CompactTest, WhoAsksForRoomWithoutWaitingIsAnsweredMeanwhile) {
  ImportLong("a", 9000);
  ATTNDB_ASSERT_OK(db_->SetQuota(3 * db_->Stats()->file_bytes));
  const Tokens few = ToyModel::Tokens(50, 7);
  const Tokens many = ToyModel::Tokens(100'000, 8);
  int num_calls = 0;
  const auto progress = [&](uint64_t, uint64_t) {
    ++num_calls;
    EXPECT_THAT(db_->CheckRoom(model_.spec(), few),
                FailsWith(StatusCode::kFailedPrecondition, HasSubstr("check room: called by")));
    EXPECT_THAT(db_->CheckRoom(model_.spec(), few, {.wait = false}), IsOk());
    EXPECT_THAT(db_->CheckRoom(model_.spec(), many, {.wait = false}),
                FailsWith(StatusCode::kResourceExhausted, HasSubstr("quota")));
    return true;
  };
  ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 65536, .progress = progress}));
  EXPECT_GT(num_calls, 1);
}

class BuildingCompactTest : public CompactTest {
 protected:
  BuildingCompactTest() : CompactTest(/*background_builds=*/true) {}
};

// Builds wait for no merge, and no merge for them.
TEST_F(BuildingCompactTest, ItsProgressMayBuildAnIndexAndThatOfABuildMayCompact) {
  ImportLong("a", 9000);
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  int num_calls = 0;
  const auto builds = [&](uint64_t, uint64_t) {
    ++num_calls;
    EXPECT_THAT(db_->Build("a", "clustered"), IsOk());
    return true;
  };
  ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 65536, .progress = builds}));
  EXPECT_GT(num_calls, 1);
  EXPECT_THAT(Lengths("a"), ElementsAre(9000));

  ImportLong("b", 9000, 2);
  num_calls = 0;
  const auto compacts = [&](uint64_t, uint64_t) {
    ++num_calls;
    EXPECT_THAT(db_->Compact({.segment_tokens = 65536}), IsOk());
    EXPECT_THAT(db_->Build("b", "pq"), IsOk());
    EXPECT_THAT(db_->WaitForBackground(), IsOk());
    return true;
  };
  ATTNDB_ASSERT_OK(db_->Build("b", "clustered", {.progress = compacts}));
  EXPECT_GT(num_calls, 0);
  EXPECT_THAT(Lengths("b"), ElementsAre(9000));
}

TEST_F(CompactTest, ProgressThatThrowsLeavesTheStoreInOrder) {
  ImportLong("a", 9000);
  const auto progress = [](uint64_t, uint64_t) -> bool { throw std::string("stop"); };
  EXPECT_THROW((void)db_->Compact({.segment_tokens = 65536, .progress = progress}), std::string);
  ATTNDB_EXPECT_OK(db_->Compact({.segment_tokens = 65536}));
  Open({.import_segment_tokens = 0});  // Removes the files that the merge had begun.
  EXPECT_THAT(Lengths("a"), ElementsAre(9000));
  ExpectNoFileTooMany();
}

class CompactCompanionsTest : public CompactTest {
 protected:
  CompactCompanionsTest() : CompactTest(/*background_builds=*/true) {}

  std::vector<std::string> Kinds(const std::string& name) const {
    std::vector<std::string> kinds;
    for (const SegmentInfo& segment : Segments(name)) {
      for (const CompanionInfo& companion : segment.companions) kinds.push_back(companion.kind);
    }
    std::ranges::sort(kinds);
    return kinds;
  }
};

TEST_F(CompactCompanionsTest, WhatTheOldSegmentsHadIsBuiltForTheNewOne) {
  constexpr const char* kAll = "topk(k=60)";
  constexpr const char* kPlans[] = {"topk(k=60,index=clustered,effort=100)",
                                    "topk(k=60,index=graph,beam_width=6000)"};
  const Tokens tokens = ImportLong("a", 6000);
  for (const char* plan : kPlans) Answer(tokens, plan);
  Answer(tokens, "topk(k=60,bits=4,remainder=mean)");
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  std::vector<std::string> kinds = Kinds("a");
  EXPECT_THAT(kinds, Contains("clusters_3"));
  EXPECT_THAT(kinds, Contains("graph_1"));
  EXPECT_THAT(kinds, Contains("value_means_1"));
  const std::vector<float> before = Answer(tokens, kAll);

  ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 65536}));
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  EXPECT_EQ(Kinds("a"), kinds);
  EXPECT_EQ(NumSegmentFiles(), 2 * (1 + kinds.size()));
  EXPECT_LT(Difference(Answer(tokens, kAll), before), kOrderTolerance);
  for (const char* plan : kPlans) {
    EXPECT_LT(Difference(Answer(tokens, plan), before), 0.05) << plan;
  }
  EXPECT_TRUE(db_->Verify()->ok());
}

TEST_F(CompactCompanionsTest, SegmentsWhosePlanesAreBeingBuiltCanBeMerged) {
  for (uint64_t round = 0; round < 6; ++round) {
    const Tokens tokens = ImportLong("a", 9000, round);
    Answer(tokens, "topk(k=60,index=clustered)");
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * round));  // Until it is under way.
    ATTNDB_ASSERT_OK(db_->Compact({.segment_tokens = 65536}));
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    EXPECT_THAT(Lengths("a"), ElementsAre(9000));
    const std::vector<std::string> kinds = Kinds("a");
    EXPECT_THAT(kinds, Contains("key_planes_3"));
    EXPECT_EQ(NumSegmentFiles(), 2 * (1 + kinds.size()));
    EXPECT_TRUE(db_->Verify()->ok());
    ATTNDB_ASSERT_OK(db_->Drop("a"));
    EXPECT_EQ(NumSegmentFiles(), 0u);
  }
}

}  // namespace
}  // namespace attndb
