// Goal:   this version reads, uses and continues the stores of earlier versions: every context, its
//         limits, its identity, and its derived objects.
// Method: stores that make_store.cc made, for each version that changed a format, are copied and
//         opened. Rows are compared with those that they were made of, attention with float64
//         attention over these; then the store is written to, compacted, and opened again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attndb/context_name.h"
#include "attndb/db.h"
#include "attndb/kv_file.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"
#include "testing/toy_model.h"
#include "testing/toy_oracle.h"
#include "tests/upgrade/held_contexts.h"

namespace attndb::test {
namespace {

using ::testing::IsEmpty;
using Tokens = std::vector<TokenId>;

constexpr std::chrono::hours kNextDay(24);
constexpr double kTolerance = 1e-4;  // Rounding of float32 sums over float16 rows.

// Ways of a plan to find tokens, the first by all keys.
const std::vector<std::string> kByPlanes = {"bits=exact", "bits=8"};
const std::vector<std::string> kByIndexes = {"bits=exact", "bits=8", "index=clustered,effort=100",
                                             "index=graph,beam_width=2000"};
const std::vector<std::string> kByMoreIndexes = {"bits=exact",
                                                 "bits=8",
                                                 "index=clustered,effort=100",
                                                 "index=graph,graphs=head,beam_width=2000",
                                                 "index=roargraph,beam_width=2000",
                                                 "index=roargraph,graphs=head,beam_width=2000",
                                                 "index=pq,m=4,b=6,effort=100",
                                                 "index=quest,effort=1000",
                                                 "index=infllm,effort=1000",
                                                 "index=wave,effort=1000"};

// A value of at most 2 in size, and the same as it was stored.
bool IsRounded(float found, float exact) { return std::abs(found - exact) <= 0x1p-11f; }

TensorView Rows(const std::vector<float>& data, uint64_t n, uint32_t heads, uint32_t dim) {
  return TensorView::Contiguous(data.data(), DType::kFloat32, static_cast<int64_t>(n), heads, dim);
}
MutableTensorView Rows(std::vector<float>* data, uint64_t n, uint32_t heads, uint32_t dim) {
  return MutableTensorView::Contiguous(data->data(), DType::kFloat32, static_cast<int64_t>(n),
                                       heads, dim);
}

std::string BytesOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A version's store, and how to find tokens in it.
struct Left {
  const char* version;
  HeldStore (*what)();
  const std::vector<std::string>& ways;
};

class UpgradeTest : public ::testing::TestWithParam<Left> {
 protected:
  UpgradeTest()
      : held_store_(GetParam().what()),
        data_(std::string(ATTNDB_UPGRADE_DATA) + '/' + GetParam().version + held_store_.folder) {
    std::filesystem::copy(data_ + "/store", store_, std::filesystem::copy_options::recursive);
  }

  // The id of a held context. From version 6 of the catalog on they are of each tenant's own: the
  // third context is the other tenant's first.
  static int64_t IdOf(size_t idx) {
    const std::string version = GetParam().version;
    const bool is_own = version.starts_with("0.1/catalog") && version >= "0.1/catalog6";
    return static_cast<int64_t>(is_own && idx == 2 ? 1 : idx + 1);
  }

  // The handle that sees `context`.
  Result<DB> Open(const HeldContext& context, DBOptions options = HeldOptions(kNextDay)) const {
    ATTNDB_ASSIGN_OR_RETURN(DB db, DB::Open(store_, options));
    if (context.tenant.empty()) return db;
    return db.ForTenant(context.tenant);
  }

  // A prompt that begins with the context finds all of it, and goes on from it.
  void ExpectServes(const DB& db, const HeldContext& context, const ToyModel& model) {
    Tokens prompt = context.tokens;
    for (const TokenId token : ToyModel::Tokens(5, 99)) prompt.push_back(token);
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(model.spec(), prompt));
    ASSERT_EQ(start.session.num_reused(), context.tokens.size());
    ExpectRows(start.session, model, context.tokens);
    std::vector<float> out;
    ATTNDB_ASSERT_OK(model.Step(&start.session, start.rest, &out));
    EXPECT_LT(OutputError(model, out, OracleStep(model, prompt, context.tokens.size())),
              kTolerance);
  }

  // K and V are those that the store was made of.
  static void ExpectRows(const Session& session, const ToyModel& model, const Tokens& tokens) {
    const uint64_t n = tokens.size();
    for (LayerId layer = 0; layer < model.spec().num_layers(); ++layer) {
      const LayerSpec& spec = model.spec().layers[layer];
      const std::vector<float> keys = model.Keys(layer, tokens, 0);
      const std::vector<float> values = model.Values(layer, tokens, 0);
      std::vector<float> k(keys.size()), v(values.size());
      ATTNDB_ASSERT_OK(session.ReadKv(layer, {0, n}, Rows(&k, n, spec.num_kv_heads, spec.head_dim),
                                      Rows(&v, n, spec.num_kv_heads, spec.v_head_dim)));
      EXPECT_TRUE(std::ranges::equal(k, keys, IsRounded)) << "layer " << layer;
      EXPECT_TRUE(std::ranges::equal(v, values, IsRounded)) << "layer " << layer;
    }
  }

  // The result of a search of layer 0.
  struct Found {
    std::vector<CriticalTokens> heads;  // Tokens in ascending order.
    double visited = 0;
  };
  Found Find(const DB& db, const std::string& how) const {
    const LayerSpec& shape = model_.spec().layers[0];
    const std::string plan = "topk(k=16,sink=4,window=8," + how + ")";
    Result<SessionStart> start =
        db.CreateSession(model_.spec(), held_[0].tokens, {.context = "handbook", .plan = plan});
    ATTNDB_EXPECT_OK(start);
    ATTNDB_EXPECT_OK(model_.Step(&start->session, start->rest));
    const std::vector<float> q = model_.Queries(0, start->rest, 0);
    Found found = {*start->session.Search(0, Rows(q, 1, shape.num_q_heads, shape.head_dim))};
    for (CriticalTokens& head : found.heads) std::ranges::sort(head.tokens);
    found.visited = start->session.Explain(0)->heads[0].visited_mean;
    return found;
  }

  // Kinds of the companions that lie in the store.
  std::set<std::string> Kinds() const {
    std::set<std::string> kinds;
    for (const auto& entry : std::filesystem::directory_iterator(store_ + "/segments")) {
      const std::string name = entry.path().filename();  // SEGMENT.KIND.GENERATION.obj
      if (!name.ends_with(".obj")) continue;
      const size_t begin = name.find('.') + 1;
      kinds.insert(name.substr(begin, name.find('.', begin) - begin));
    }
    return kinds;
  }

  const HeldStore held_store_;
  const std::string data_;  // Never written to.
  const TempDir folder_;
  const std::string store_ = folder_.File("store");
  const ToyModel model_{held_store_.spec};
  const std::vector<HeldContext>& held_ = held_store_.contexts;
  const std::vector<std::string>& ways_ = GetParam().ways;
};

TEST_P(UpgradeTest, ListsEveryContextWithItsNameAndLimits) {
  for (const HeldContext& context : held_) {
    SCOPED_TRACE(context.name);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(context));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<ContextInfo> list, db.List());
    const auto found = std::ranges::find(list, context.name, &ContextInfo::name);
    ASSERT_NE(found, list.end());
    EXPECT_EQ(found->num_tokens, context.tokens.size());
    EXPECT_EQ(found->pinned, context.pinned);
    EXPECT_EQ(found->ttl_seconds.value_or(0), context.ttl ? context.ttl->count() : 0);
    EXPECT_EQ(found->created_us, kHeldMade.count());
    EXPECT_EQ(found->fingerprint, model_.spec().fingerprint);
    EXPECT_FALSE(found->damaged);
    EXPECT_EQ(*db.Tokens(context.name), context.tokens);
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB other, Open(held_[2]));
  EXPECT_EQ(other.Stats()->quota_bytes, kOtherQuota);
}

// Ids were those of the whole store once. A tenant may have written its own down.
TEST_P(UpgradeTest, KeepsEachTenantsIdsAndGoesOnBehindTheLargest) {
  std::vector<int64_t> segments;
  for (const bool read_only : {true, false}) {
    DBOptions options = HeldOptions(kNextDay);
    options.read_only = read_only;
    for (size_t i = 0; i < held_.size(); ++i) {
      ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(held_[i], options));
      const auto id = static_cast<ContextId>(IdOf(i));
      ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, db.Describe(IdName(id)));
      EXPECT_EQ(info.name, held_[i].name);
      EXPECT_EQ(info.id, id);
      const int64_t segment = info.segments.back().segment_id;
      if (read_only) segments.push_back(segment);
      EXPECT_EQ(segment, segments[i]);
      const std::string of_others = i < 2 ? "#3" : "#2";
      EXPECT_THAT(db.Describe(of_others), FailsWith(StatusCode::kNotFound, ::testing::_));
    }
  }
  const int64_t next_of_other = IdOf(2) + 1;
  for (const auto& [of, id] :
       {std::pair(held_[0], int64_t{3}), std::pair(held_[2], next_of_other)}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(of));
    const Tokens tokens = ToyModel::Tokens(30, 7);
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(model_.spec(), tokens));
    ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId stored, db.Store(start.session, tokens));
    EXPECT_EQ(stored, static_cast<ContextId>(id));
  }
}

TEST_P(UpgradeTest, ServesEveryContextUnderTheSameModel) {
  for (const HeldContext& context : held_) {
    SCOPED_TRACE(context.name);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(context));
    ExpectServes(db, context, model_);
  }
}

TEST_P(UpgradeTest, KnowsTheFingerprintThatWasDeclaredEqual) {
  ModelSpec spec = model_.spec();
  spec.fingerprint = kEqualName;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(held_[0]));
  ExpectServes(db, held_[0], ToyModel(spec));
}

TEST_P(UpgradeTest, ServesNoContextUnderAModelThatDiffers) {
  ModelSpec capped = model_.spec();
  capped.layers[1].soft_cap = 31.0f;
  ModelSpec others = model_.spec();
  others.layers[0].denominator_logits = {6.5f, -1.5f};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(held_[0]));
  for (const ModelSpec& spec : {capped, others}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const SessionStart start, db.CreateSession(spec, held_[0].tokens));
    EXPECT_EQ(start.session.num_reused(), 0u);
  }
}

TEST_P(UpgradeTest, FindsNoDamageAndLeavesAStoreThatIsOnlyReadAsItWas) {
  DBOptions options = HeldOptions(kNextDay);
  options.read_only = true;
  for (const HeldContext& context : held_) {
    SCOPED_TRACE(context.name);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(context, options));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, db.Verify());
    EXPECT_THAT(report.damages, IsEmpty());
    EXPECT_GT(report.num_segments, 0u);
    ExpectServes(db, context, model_);
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data_ + "/store")) {
    if (!entry.is_regular_file()) continue;
    const std::filesystem::path copy =
        store_ / std::filesystem::relative(entry.path(), data_ + "/store");
    EXPECT_TRUE(BytesOf(copy) == BytesOf(entry.path())) << copy;
  }
}

// Derived objects are read; objects of a former kind are dropped and built anew when they are
// wanted. Plans find the same with them as with all keys.
TEST_P(UpgradeTest, FindsWhatWasFoundAndKeepsNothingOfAFormerKind) {
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(held_[0]));
    for (const std::string& how : ways_) Find(db, how);
    ATTNDB_ASSERT_OK(db.WaitForBackground());
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(held_[0]));
  std::vector<Found> found;
  for (const std::string& how : ways_) {
    found.push_back(Find(db, how));
    EXPECT_EQ(found.back().visited > 0, how.starts_with("index")) << how;
    ASSERT_EQ(found.back().heads.size(), model_.spec().layers[0].num_q_heads);
  }
  for (size_t head = 0; head < found[0].heads.size(); ++head) {
    EXPECT_EQ(found[0].heads[head].tokens.size(), 16u);
    for (const Found& way : found) {
      EXPECT_EQ(way.heads[head].tokens, found[0].heads[head].tokens) << "q head " << head;
    }
  }

  ATTNDB_ASSERT_OK(db.WaitForBackground());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, db.Stats());
  EXPECT_EQ(stats.num_pending_companions, 0u);
  EXPECT_GT(stats.num_companions, 0u);
  EXPECT_EQ(stats.num_companions_built, 0u);  // The first open has built what was wanted.
  EXPECT_THAT(Kinds(),
              ::testing::IsSubsetOf({"key_planes_3", "value_means_1", "clusters_3", "graph_1",
                                     "graph_head_1", "roargraph_1", "roargraph_head_1", "pq_4x6",
                                     "quest_16", "infllm_128x4", "wave_16", "static_prefill_1"}));
}

TEST_P(UpgradeTest, ExpiresWhatWasToExpireAndKeepsWhatIsPinned) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db,
                              Open(held_[0], HeldOptions(std::chrono::hours(30 * 24))));
  ATTNDB_ASSERT_OK(db.Compact());
  EXPECT_THAT(db.Describe("branch"), FailsWith(StatusCode::kNotFound, ::testing::_));
  ExpectServes(db, held_[0], model_);
}

TEST_P(UpgradeTest, GoesOnIsCompactedAndOpensAgain) {
  HeldContext more = {.name = "more", .tokens = held_[1].tokens};
  for (const TokenId token : ToyModel::Tokens(70, 5)) more.tokens.push_back(token);
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(more));
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(model_.spec(), more.tokens));
    EXPECT_EQ(start.session.num_reused(), held_[1].tokens.size());
    ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
    ATTNDB_ASSERT_OK(db.Store(start.session, more.tokens, {.name = more.name}).status());
    ATTNDB_ASSERT_OK(db.Pin("branch"));
    ATTNDB_ASSERT_OK(db.Drop("handbook"));
    ATTNDB_ASSERT_OK(db.Compact());
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(more));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, db.Verify());
  EXPECT_THAT(report.damages, IsEmpty());
  EXPECT_THAT(db.Describe("handbook"), FailsWith(StatusCode::kNotFound, ::testing::_));
  EXPECT_TRUE(db.Describe("branch")->pinned);
  ExpectServes(db, held_[1], model_);
  ExpectServes(db, more, model_);
}

TEST_P(UpgradeTest, ImportsAKvFileOfThen) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(folder_.File("new"), HeldOptions(kNextDay)));
  ATTNDB_ASSERT_OK(
      ImportKvFile(db, data_ + "/draft.safetensors", {.store = {.name = "draft"}}).status());
  ExpectServes(db, held_[2], model_);
}

// Stores of which all that was derived is of a kind that this version still has.
class UpgradeOfIndexesTest : public UpgradeTest {};

TEST_P(UpgradeOfIndexesTest, WhatWasBuiltIsReadAndNothingBuiltAnew) {
  const std::set<std::string> kinds = Kinds();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, Open(held_[0]));
  for (const std::string& how : ways_) {
    EXPECT_EQ(Find(db, how).visited > 0, how.starts_with("index")) << how;
  }
  (void)Find(db, "remainder=mean");
  (void)Find(db, "static=prefill:8");
  ATTNDB_ASSERT_OK(db.WaitForBackground());
  EXPECT_EQ(db.Stats()->num_companions_built, 0u);
  EXPECT_EQ(Kinds(), kinds);
}

std::string NameOf(const ::testing::TestParamInfo<Left>& test) {
  std::string name = test.param.version + test.param.what().folder;
  std::ranges::replace(name, '.', '_');
  std::ranges::replace(name, '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Versions, UpgradeTest,
                         ::testing::Values(Left{"0.0", PlainStore, kByPlanes},
                                           Left{"0.0", DenominatorStore, kByIndexes},
                                           Left{"0.0", IndexStore, kByMoreIndexes},
                                           Left{"0.1", PlainStore, kByPlanes},
                                           Left{"0.1", DenominatorStore, kByIndexes},
                                           Left{"0.1", IndexStore, kByMoreIndexes},
                                           Left{"0.1/catalog5", PlainStore, kByPlanes},
                                           Left{"0.1/catalog6", PlainStore, kByPlanes},
                                           Left{"0.1/catalog7", PlainStore, kByPlanes},
                                           Left{"0.1/catalog8", PlainStore, kByPlanes}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Versions, UpgradeOfIndexesTest,
                         ::testing::Values(Left{"0.0", IndexStore, kByMoreIndexes},
                                           Left{"0.1", IndexStore, kByMoreIndexes}),
                         NameOf);

}  // namespace
}  // namespace attndb::test
