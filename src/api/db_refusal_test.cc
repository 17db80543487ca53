// Goal:   what a store refuses, it refuses by name: the message says which field, what was found
//         and what was expected; and the store is as it was before.
#include <sqlite3.h>

#include <cmath>
#include <limits>

#include "api/db_test_util.h"
#include "attndb/context_name.h"
#include "store/catalog/sqlite.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::FailsWith;
using test::KvArrays;
using test::Tokens;
using test::ToyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

// --- Options ---

TEST(OptionsTest, AreRefusedBeforeAStoreIsMade) {
  const test::TempDir dir = test::TempDir::InMemory();
  const auto expect_refused = [&](const DBOptions& options, const char* why) {
    EXPECT_THAT(DB::Open(dir.File("store"), options).status(),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  expect_refused({.query_sample = -0.1}, "query_sample is -0.1");
  expect_refused({.query_sample = std::nan("")}, "query_sample is nan");
  expect_refused({.num_threads = 1025}, "num_threads is 1025, expected at most 1024");
  expect_refused({.background_threads = UINT32_MAX}, "background_threads is 4294967295");
  EXPECT_THAT(DB::Open(dir.File("store"), {.create_if_missing = false}).status(),
              FailsWith(StatusCode::kNotFound, HasSubstr("no store")));
}

// --- Import ---

constexpr uint64_t kImportTokens = 5000;  // Import seals 4,096 at a time: two pieces.
constexpr uint64_t kBadToken = 4500;      // In the second.

class ImportRefusalTest : public DBFixture {
 protected:
  ImportRefusalTest() {
    ATTNDB_EXPECT_OK(StoreTokens(ToyModel::Tokens(100, 1), {.name = "taken"}));
    ATTNDB_EXPECT_OK(StoreTokens(std::span(tokens_).first(300)));  // The import may continue it.
    before_ = Visible();
  }

  // Everything that a caller can see of the store, except times and counts of calls.
  struct View {
    std::vector<std::string> contexts;
    uint64_t num_segments = 0;
    uint64_t file_bytes = 0;
    uint64_t num_files = 0;
    friend bool operator==(const View&, const View&) = default;
  };
  View Visible() const {
    View view;
    const std::vector<ContextInfo> list = *db_->List();
    for (const ContextInfo& info : list) {
      view.contexts.push_back(
          IdName(info.id) + " " + info.name + " " + std::to_string(info.num_tokens) + " " +
          std::to_string(info.file_bytes) + " " + std::to_string(info.own_bytes));
    }
    const DBStats stats = *db_->Stats();
    view.num_segments = stats.num_segments;
    view.file_bytes = stats.file_bytes;
    view.num_files = NumSegmentFiles();
    return view;
  }

  // One element of K or V of layer 1, head 2, at `kBadToken` is beyond float16.
  static KvArrays TooLarge(const ToyModel& model, std::span<const TokenId> tokens, bool in_key) {
    return KvArrays(model, tokens, [&](LayerId layer, auto* k, auto* v) {
      if (layer == 1) (in_key ? k : v)->at((kBadToken * 3 + 2) * 24 + 5) = 70000.0f;
    });
  }

  const Tokens tokens_ = ToyModel::Tokens(kImportTokens, 8);
  View before_;
};

TEST_F(ImportRefusalTest, OptionsAreRefusedBeforeAnythingIsWritten) {
  const KvArrays kv(model_, tokens_);
  const uint64_t bytes_written = db_->Stats()->bytes_written;
  const auto import = [&](const StoreOptions& options) {
    return db_->Import(model_.spec(), tokens_, kv.layers(), options);
  };
  EXPECT_THAT(import({.name = "taken"}), FailsWith(StatusCode::kAlreadyExists, HasSubstr("taken")));
  EXPECT_THAT(import({.name = "x", .ttl = std::chrono::seconds(-5)}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("ttl of -5 s: expected 0 to")));
  EXPECT_THAT(import({.ttl = std::chrono::seconds::max()}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("ttl of")));
  EXPECT_THAT(import({.name = "a name"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("a name")));
  EXPECT_EQ(Visible(), before_);
  EXPECT_EQ(db_->Stats()->bytes_written, bytes_written);
}

TEST_F(ImportRefusalTest, AValueTooLargeInTheSecondPieceTakesTheFirstBack) {
  for (const bool in_key : {true, false}) {
    const KvArrays kv = TooLarge(model_, tokens_, in_key);
    const uint64_t bytes_written = db_->Stats()->bytes_written;
    EXPECT_THAT(db_->Import(model_.spec(), tokens_, kv.layers(), {.name = "new"}),
                FailsWith(StatusCode::kInvalidArgument,
                          AllOf(HasSubstr(in_key ? "k of layer 1" : "v of layer 1"),
                                HasSubstr("head 2, token 4500 is 70000"), HasSubstr("float16"))));
    EXPECT_GT(db_->Stats()->bytes_written, bytes_written);  // The first piece was sealed.
    EXPECT_EQ(Visible(), before_);
  }
  EXPECT_TRUE(db_->Verify()->ok());
}

// The commit that stores an import drops the context that the import continues, and no earlier step
// does.
TEST_F(ImportRefusalTest, AnImportThatFailsLateKeepsTheBaseThatItWasToDrop) {
  const KvArrays kv = TooLarge(model_, tokens_, true);
  const StoreOptions options = {.name = "new", .drop_base = true};
  EXPECT_THAT(db_->Import(model_.spec(), tokens_, kv.layers(), options),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("token 4500")));
  EXPECT_EQ(Visible(), before_);
  ExpectAnswers(std::span(tokens_).first(300), 299);
  ATTNDB_ASSERT_OK(
      db_->Import(model_.spec(), tokens_, KvArrays(model_, tokens_).layers(), options));
  EXPECT_EQ(db_->List()->size(), before_.contexts.size());  // It has taken the base's place.
}

TEST_F(ImportRefusalTest, ARefusedImportCanBeDoneAgain) {
  const KvArrays bad = TooLarge(model_, tokens_, true);
  ASSERT_FALSE(db_->Import(model_.spec(), tokens_, bad.layers(), {.name = "new"}).ok());
  const KvArrays good(model_, tokens_);
  ATTNDB_ASSERT_OK(db_->Import(model_.spec(), tokens_, good.layers(), {.name = "new"}));
  ExpectAnswers(tokens_, kImportTokens - 1);
  EXPECT_EQ(db_->List()->size(), 3u);
}

// The whole is known to be too large before its first piece is written.
TEST_F(ImportRefusalTest, WhatTheQuotaCannotHoldEvictsNothing) {
  const KvArrays kv(model_, tokens_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB other, db_->ForTenant("other"));
  ATTNDB_ASSERT_OK(other.Import(model_.spec(), tokens_, kv.layers()));
  before_ = Visible();
  ATTNDB_ASSERT_OK(db_->SetQuota(other.Stats()->file_bytes * 9 / 10));  // One piece would fit.
  EXPECT_THAT(db_->Import(model_.spec(), tokens_, kv.layers(), {.name = "new"}),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("quota")));
  EXPECT_EQ(Visible().contexts, before_.contexts);
  EXPECT_EQ(Visible().file_bytes, before_.file_bytes);
  EXPECT_EQ(db_->Stats()->num_evictions, 0u);
}

// --- Positions ---

using PositionTest = DBFixture;

TEST_F(PositionTest, PositionsOutOfRangeAreRefused) {
  constexpr int64_t kMax = int64_t{1} << 40;
  const Tokens prompt = {1, 2, 3};
  for (const int64_t position : {std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min(), int64_t{-1}, kMax + 1}) {
    const auto refusal = FailsWith(StatusCode::kInvalidArgument,
                                   HasSubstr("first_position is " + std::to_string(position) +
                                             ", expected 0 to " + std::to_string(kMax)));
    const SessionOptions options = {.first_position = position};
    EXPECT_THAT(db_->CreateSession(model_.spec(), prompt, options), refusal);
    EXPECT_THAT(db_->ExplainPrefix(model_.spec(), prompt, options), refusal);
  }
  EXPECT_EQ(db_->Stats()->num_sessions, 0u);
}

TEST_F(PositionTest, TheLastPositionIsServed) {
  const SessionOptions options = {.first_position = int64_t{1} << 40};
  const Tokens prompt = ToyModel::Tokens(50, 3);
  {
    SessionStart start = Start(prompt, options);
    ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
    ATTNDB_ASSERT_OK(db_->Store(start.session, prompt, {.name = "far"}));
  }
  EXPECT_EQ(Start(prompt, options).session.num_reused(), 49u);
  EXPECT_EQ(Start(prompt).session.num_reused(), 0u);
  EXPECT_EQ(db_->Describe("far")->first_position, int64_t{1} << 40);
}

// --- Models ---

// One way in which a spec differs from that of a stored context, and how the refusal names it.
struct SpecChange {
  std::string message;  // "field found, expected wanted".
  std::function<void(ModelSpec*)> apply;
};

// Changes of the fields of layer `layer`, whose values are those of ToyModel.
std::vector<SpecChange> LayerChanges(LayerId layer) {
  const auto change = [layer](std::string message, auto apply) {
    return SpecChange{"layer " + std::to_string(layer) + ": " + std::move(message),
                      [layer, apply](ModelSpec* spec) { apply(&spec->layers[layer]); }};
  };
  const std::string num_kv_heads = layer == 0 ? "2" : "3";
  const std::string head_dim = layer == 0 ? "32" : "24";
  return {
      change("num_kv_heads " + num_kv_heads + ", expected 6",
             [](LayerSpec* l) { l->num_kv_heads = 6; }),
      change("head_dim " + head_dim + ", expected 64", [](LayerSpec* l) { l->head_dim = 64; }),
      change("RoPE base 10000, expected 20000", [](LayerSpec* l) { l->rope.base = 20000.0; }),
      change("RoPE scaling '', expected 'linear:factor=4'",
             [](LayerSpec* l) { l->rope.scaling = "linear:factor=4"; }),
  };
}

std::vector<SpecChange> ModelChanges() {
  return {
      {"kv_dtype float16, expected bfloat16",
       [](ModelSpec* spec) { spec->kv_dtype = DType::kBFloat16; }},
      {"fingerprint 'toy', expected 'toy 2'", [](ModelSpec* spec) { spec->fingerprint = "toy 2"; }},
      {"num_layers 2, expected 3",
       [](ModelSpec* spec) { spec->layers.push_back(spec->layers[1]); }},
  };
}

class SpecTest : public DBFixture {
 protected:
  // Stores a context of a model whose layers have these layouts.
  void StoreWith(RopeLayout first, RopeLayout second) {
    ModelSpec spec = model_.spec();
    spec.layers[0].rope.layout = first;
    spec.layers[1].rope.layout = second;
    model_ = ToyModel(spec);
    ATTNDB_ASSERT_OK(StoreTokens(doc_, {.name = "doc"}));
  }

  void ExpectRefused(const SpecChange& change) {
    SCOPED_TRACE(change.message);
    ModelSpec spec = model_.spec();
    change.apply(&spec);
    EXPECT_THAT(
        db_->CreateSession(spec, doc_, {.context = "doc"}),
        FailsWith(StatusCode::kOtherModel, AllOf(HasSubstr("'doc'"), HasSubstr(change.message))));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const SessionStart start, db_->CreateSession(spec, doc_));
    EXPECT_EQ(start.session.num_reused(), 0u);
    EXPECT_EQ(start.rest, doc_);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefixExplain explain, db_->ExplainPrefix(spec, doc_));
    EXPECT_EQ(explain.num_reused, 0u);
    EXPECT_THAT(explain.ToText(), HasSubstr("another model"));
  }
  void ExpectRefused(const std::vector<SpecChange>& changes) {
    for (const SpecChange& change : changes) ExpectRefused(change);
  }

  const Tokens doc_ = ToyModel::Tokens(100, 5);
};

TEST_F(SpecTest, KvOfOtherDenominatorsIsNeverReused) {
  const auto with = [](LayerId layer, float last) {
    return [layer, last](ModelSpec* spec) {
      std::vector<float> logits(spec->layers[layer].num_q_heads, 0.5f);
      logits.back() = last;
      spec->layers[layer].denominator_logits = logits;
    };
  };
  const std::string num_q_heads = std::to_string(model_.spec().layers[1].num_q_heads);
  const std::string last = std::to_string(model_.spec().layers[1].num_q_heads - 1);
  const std::string count = "layer 1: number of denominator_logits ";
  ATTNDB_ASSERT_OK(StoreTokens(doc_, {.name = "doc"}));
  ExpectRefused({count + "0, expected " + num_q_heads, with(1, -2.5f)});

  ModelSpec spec = model_.spec();
  with(1, -2.5f)(&spec);
  model_ = ToyModel(spec);
  ATTNDB_ASSERT_OK(StoreTokens(doc_, {.name = "doc", .replace = true}));
  ExpectRefused(
      {{"layer 1: denominator_logits[" + last + "] -2.5, expected -2.25", with(1, -2.25f)},
       {"layer 0: number of denominator_logits 0, expected ", with(0, 1.0f)},
       {count + num_q_heads + ", expected 0",
        [](ModelSpec* changed) { changed->layers[1].denominator_logits.clear(); }}});
  EXPECT_EQ(db_->CreateSession(spec, doc_)->session.num_reused(), doc_.size() - 1);
}

TEST_F(SpecTest, ANamedContextOfAnotherModelIsRefusedByField) {
  StoreWith(RopeLayout::kHalf, RopeLayout::kHalf);
  ExpectRefused(ModelChanges());
  ExpectRefused(LayerChanges(0));
  ExpectRefused(LayerChanges(1));
}

// Stored keys have layout kHalf whatever the engine uses: the layout is never the difference.
TEST_F(SpecTest, TheFieldIsNamedUnderInterleavedRopeToo) {
  StoreWith(RopeLayout::kInterleaved, RopeLayout::kInterleaved);
  ExpectRefused(ModelChanges());
  ExpectRefused(LayerChanges(0));
  ExpectRefused(LayerChanges(1));
}

TEST_F(SpecTest, TheFieldIsNamedBesideALayerWithoutRope) {
  StoreWith(RopeLayout::kNone, RopeLayout::kHalf);
  ExpectRefused(ModelChanges());
  ExpectRefused(LayerChanges(1));
}

TEST_F(SpecTest, SpecsThatMeanTheSameAreOneModel) {
  ATTNDB_ASSERT_OK(StoreTokens(doc_, {.name = "doc"}));
  ModelSpec written_out = model_.spec();
  written_out.layers[0].scale = 1.0f / std::sqrt(32.0f);
  written_out.layers[0].rope.rope_dims = 32;
  ModelSpec other_layout = model_.spec();
  other_layout.layers[0].rope.layout = RopeLayout::kHalf;
  for (const ModelSpec& spec : {written_out, other_layout}) {
    EXPECT_EQ(db_->CreateSession(spec, doc_, {.context = "doc"})->session.num_reused(), 99u);
    EXPECT_EQ(db_->CreateSession(spec, doc_)->session.num_reused(), 99u);
  }
}

// --- Formats ---

class FormatTest : public DBFixture {
 protected:
  FormatTest() {
    ATTNDB_EXPECT_OK(StoreTokens(doc_, {.name = "doc"}));
    db_.reset();
  }
  std::unique_ptr<store::SqliteDatabase> OpenCatalog() const {
    auto catalog = store::SqliteDatabase::Open(store() + "/catalog.db",
                                               store::SqliteDatabase::Mode::kReadWrite);
    EXPECT_THAT(catalog, test::IsOk());
    return *std::move(catalog);
  }
  static void ExpectUnsupported(const std::string& path) {
    for (const bool read_only : {false, true}) {
      EXPECT_THAT(DB::Open(path, {.read_only = read_only}),
                  FailsWith(StatusCode::kUnsupported,
                            AllOf(HasSubstr("catalog.db"), HasSubstr("version 10"),
                                  HasSubstr("expected at most 9"), HasSubstr("newer attndb"))));
    }
  }

  const Tokens doc_ = ToyModel::Tokens(100, 5);
};

TEST_F(FormatTest, AStoreOfANewerFormatIsLeftAlone) {
  ATTNDB_ASSERT_OK(OpenCatalog()->Execute("PRAGMA user_version = 10"));
  const auto before = FilesIn(store());
  ExpectUnsupported(store());
  EXPECT_EQ(FilesIn(store()), before);
  ATTNDB_ASSERT_OK(OpenCatalog()->Execute("PRAGMA user_version = 9"));
  Open();
  ExpectAnswers(doc_, 99);
}

// A newer attndb was killed here: the version is in the log, not yet in the file.
TEST_F(FormatTest, ANewerFormatIsSeenInTheLog) {
  const std::string killed = dir_.File("killed");
  {
    const auto catalog = OpenCatalog();
    ATTNDB_ASSERT_OK(catalog->Execute("PRAGMA user_version = 10"));
    std::filesystem::copy(store(), killed, std::filesystem::copy_options::recursive);
  }
  ASSERT_GT(std::filesystem::file_size(killed + "/catalog.db-wal"), 0u);
  const uint64_t num_files = FilesIn(killed + "/segments").size();
  ExpectUnsupported(killed);
  EXPECT_EQ(FilesIn(killed + "/segments").size(), num_files);
}

}  // namespace
}  // namespace attndb
