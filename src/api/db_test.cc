// Goal:   the exact meanings of a DB's calls (include/attndb/db.h), seen through the public API.
#include "attndb/db.h"
#include "attndb/context_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "api/db_test_util.h"
#include "api/segment_file_test_util.h"

namespace attndb {
namespace {

using test::FailsWith;
using test::IsOk;
using test::SegmentFile;
using test::ToyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DBTest : public test::DBFixture {
 protected:
  // The output of a session without reuse after `tokens`.
  std::vector<float> Expected(std::span<const TokenId> tokens) {
    SessionStart start = Start(tokens, {.reuse = false});
    EXPECT_THAT(model_.Step(&start.session, tokens), IsOk());
    std::vector<float> out;
    EXPECT_THAT(model_.Probe(&start.session, 7, &out), IsOk());
    return out;
  }

  // Stricter than the fixture's: equal to such a session.
  void ExpectAnswers(std::span<const TokenId> tokens, uint64_t num_reused) {
    SessionStart start = Start(tokens);
    EXPECT_EQ(start.session.num_reused(), num_reused);
    EXPECT_EQ(start.rest.size(), tokens.size() - num_reused);
    ASSERT_THAT(model_.Step(&start.session, start.rest), IsOk());
    std::vector<float> out;
    ASSERT_THAT(model_.Probe(&start.session, 7, &out), IsOk());
    const std::vector<float> expected = Expected(tokens);
    ASSERT_EQ(out.size(), expected.size());
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-5);
  }

  const std::vector<TokenId> doc_ = ToyModel::Tokens(300, 5);
};

TEST_F(DBTest, AStoredPrefixIsReusedInALaterOpen) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc"}), IsOk());
  Open();
  std::vector<TokenId> prompt = doc_;
  prompt.insert(prompt.end(), {5000, 5001});
  ExpectAnswers(prompt, 300);
}

TEST_F(DBTest, OneTokenOfAWhollyStoredPromptIsLeftToRun) {
  ASSERT_THAT(StoreTokens(doc_), IsOk());
  ExpectAnswers(doc_, 299);
}

TEST_F(DBTest, ReuseIsExactToTheToken) {
  ASSERT_THAT(StoreTokens(doc_), IsOk());
  for (const size_t cut : {1u, 2u, 63u, 64u, 65u, 127u, 128u, 200u, 299u}) {
    std::vector<TokenId> prompt(doc_.begin(), doc_.begin() + static_cast<long>(cut));
    prompt.push_back(4000);
    prompt.push_back(4001);
    ExpectAnswers(prompt, cut);
  }
  ExpectAnswers(std::vector<TokenId>{4000}, 0);
}

TEST_F(DBTest, ContextsWithOnePrefixShareItsSegments) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "a"}), IsOk());
  std::vector<TokenId> other = doc_;
  other.insert(other.end(), 50, 77);
  ASSERT_THAT(StoreTokens(other, {.name = "b"}), IsOk());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo a, db_->Describe("a"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo b, db_->Describe("b"));
  ASSERT_EQ(a.segments.size(), 1u);
  ASSERT_EQ(b.segments.size(), 2u);
  EXPECT_EQ(a.segments[0].segment_id, b.segments[0].segment_id);
  EXPECT_EQ(b.segments[0].num_contexts, 2u);
  EXPECT_EQ(b.own_bytes, b.segments[1].file_bytes);
  EXPECT_EQ(b.num_tokens, 350u);
}

TEST_F(DBTest, StoreGoesOnUponTheNewContext) {
  SessionStart start = Start(doc_);
  ASSERT_THAT(model_.Step(&start.session, start.rest), IsOk());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId id, db_->Store(start.session, doc_));
  EXPECT_EQ(start.session.context_id(), id);
  EXPECT_EQ(start.session.num_reused(), 300u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId again, db_->Store(start.session, doc_));
  EXPECT_EQ(again, id);  // An empty tail returns the existing context.
  ASSERT_THAT(model_.Step(&start.session, std::vector<TokenId>{3}), IsOk());
  std::vector<float> out;
  ASSERT_THAT(model_.Probe(&start.session, 7, &out), IsOk());
  std::vector<TokenId> all = doc_;
  all.push_back(3);
  const std::vector<float> expected = Expected(all);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-5);
}

TEST_F(DBTest, StoreChecksTheTokensItIsGiven) {
  ASSERT_THAT(StoreTokens(doc_), IsOk());
  std::vector<TokenId> prompt = doc_;
  prompt.push_back(9);
  SessionStart start = Start(prompt);
  ASSERT_THAT(model_.Step(&start.session, start.rest), IsOk());
  EXPECT_THAT(db_->Store(start.session, doc_),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("300 token ids, but the session holds 301")));
  std::vector<TokenId> wrong = prompt;
  wrong[17] = 999999;
  EXPECT_THAT(db_->Store(start.session, wrong),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("token 17 has id 999999")));
  wrong = prompt;
  wrong.back() = -1;
  EXPECT_THAT(db_->Store(start.session, wrong),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("token 300 has id -1")));
  EXPECT_THAT(db_->Store(start.session, prompt), IsOk());
}

TEST_F(DBTest, NamesAreUniqueUnlessReplaced) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc"}), IsOk());
  const std::vector<TokenId> other = ToyModel::Tokens(100, 6);
  EXPECT_THAT(StoreTokens(other, {.name = "doc"}),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr("doc")));
  EXPECT_THAT(StoreTokens(other, {.name = "doc", .replace = true}), IsOk());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<TokenId> tokens, db_->Tokens("doc"));
  EXPECT_EQ(tokens, other);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<ContextInfo> list, db_->List());
  EXPECT_EQ(list.size(), 1u);
  EXPECT_THAT(StoreTokens(other, {.name = "no spaces"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("name")));
}

TEST_F(DBTest, ATitleAndANoteStayWithTheContext) {
  const std::string note("date\0 2026", 10);
  ATTNDB_ASSERT_OK(
      StoreTokens(std::span(doc_).first(100), {.name = "doc", .title = "A book", .note = note}));
  Open();
  EXPECT_EQ(db_->Describe("doc")->title, "A book");
  EXPECT_EQ(db_->List()->front().title, "A book");
  EXPECT_EQ(*db_->Note("doc"), note);
  ATTNDB_ASSERT_OK(db_->Rename("doc", "book"));
  EXPECT_EQ(*db_->Note("book"), note);
  EXPECT_THAT(db_->Note("doc"), FailsWith(StatusCode::kNotFound, HasSubstr("doc")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB other, db_->ForTenant("other"));
  EXPECT_THAT(other.Note("book"), FailsWith(StatusCode::kNotFound, HasSubstr("book")));
  EXPECT_THAT(StoreTokens(std::span(doc_).first(120), {.title = "\x1b[2J"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("title has U+001B at byte 0")));
  EXPECT_THAT(StoreTokens(std::span(doc_).first(120), {.note = std::string((16 << 20) + 1, 'n')}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("note has 16,777,217 bytes")));
  EXPECT_EQ(db_->List()->size(), 1u);
}

TEST_F(DBTest, AStoreNotesWhichContextItContinues) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId one,
                              StoreTokens(std::span(doc_).first(100), {.title = "T"}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId two, StoreTokens(std::span(doc_).first(150)));
  ATTNDB_ASSERT_OK(StoreTokens(std::span(doc_).first(200), {.name = "three"}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<ContextInfo> list, db_->List());
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].continues, ContextId::kNone);
  EXPECT_EQ(list[1].continues, one);
  EXPECT_EQ(list[1].title, "") << "it has a title of its own, or none";
  EXPECT_EQ(list[2].continues, two);
  // A session continues its stored context.
  SessionStart start = Start(std::span(doc_).first(60));
  ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId part,
                              db_->Store(start.session, std::span(doc_).first(60)));
  EXPECT_EQ(db_->Describe(IdName(part))->continues, ContextId::kNone);
  ATTNDB_ASSERT_OK(model_.Step(&start.session, std::span(doc_).subspan(60, 5)));
  ATTNDB_ASSERT_OK(db_->Store(start.session, std::span(doc_).first(65), {.name = "five"}));
  EXPECT_EQ(db_->Describe("five")->continues, part);
}

// Only the title is new.
TEST_F(DBTest, ATitleAloneIsStored) {
  ATTNDB_ASSERT_OK(StoreTokens(std::span(doc_).first(100)));
  SessionStart start = Start(std::span(doc_).first(101));
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const ContextId titled,
      db_->Store(start.session, std::span(doc_).first(100), {.title = "T"}));
  EXPECT_EQ(db_->Describe(IdName(titled))->title, "T");
}

TEST_F(DBTest, ANamedContextIsReusedOnItsOwn) {
  ASSERT_THAT(StoreTokens(std::span(doc_).first(100), {.name = "short"}), IsOk());
  ASSERT_THAT(StoreTokens(doc_, {.name = "long"}), IsOk());
  EXPECT_EQ(Start(doc_, {.context = "short"}).session.num_reused(), 100u);
  EXPECT_EQ(Start(doc_).session.num_reused(), 299u);
  EXPECT_THAT(db_->CreateSession(model_.spec(), doc_, {.context = "none"}),
              FailsWith(StatusCode::kNotFound, HasSubstr("none")));
  ModelSpec other = model_.spec();
  other.fingerprint = "other";
  EXPECT_THAT(db_->CreateSession(other, doc_, {.context = "short"}),
              FailsWith(StatusCode::kOtherModel, HasSubstr("fingerprint '")));
}

TEST_F(DBTest, NothingIsReusedAcrossModelsUnlessDeclaredEqual) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc"}), IsOk());
  const auto reused = [&](const ModelSpec& spec) {
    return db_->CreateSession(spec, doc_)->session.num_reused();
  };
  ModelSpec fingerprint = model_.spec();
  fingerprint.fingerprint = "other weights";
  ModelSpec base = model_.spec();
  base.layers[1].rope.base = 20000.0;
  ModelSpec scaling = model_.spec();
  scaling.layers[0].rope.scaling = "linear:factor=2";
  ModelSpec dtype = model_.spec();
  dtype.kv_dtype = DType::kBFloat16;
  for (const ModelSpec& spec : {fingerprint, base, scaling, dtype}) EXPECT_EQ(reused(spec), 0u);
  EXPECT_EQ(Start(doc_, {.first_position = 10}).session.num_reused(), 0u);
  ASSERT_THAT(db_->DeclareEqual("toy", "other weights"), IsOk());
  EXPECT_EQ(reused(fingerprint), 299u);
  EXPECT_EQ(reused(base), 0u);
}

TEST_F(DBTest, WhatATenantDeclaresEqualChangesNoOther) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc"}), IsOk());
  ModelSpec other_weights = model_.spec();
  other_weights.fingerprint = "other weights";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB other, db_->ForTenant("other"));
  ATTNDB_ASSERT_OK(other.DeclareEqual("toy", "other weights"));
  EXPECT_EQ(db_->CreateSession(other_weights, doc_)->session.num_reused(), 0u);
  EXPECT_EQ(db_->CreateSession(other_weights, doc_, {.context = "doc"}).status().code(),
            StatusCode::kOtherModel);
  ATTNDB_ASSERT_OK(db_->DeclareEqual("toy", "other weights"));
  EXPECT_EQ(db_->CreateSession(other_weights, doc_)->session.num_reused(), doc_.size() - 1);
}

TEST_F(DBTest, TenantsSeeNothingOfEachOther) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc"}), IsOk());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB other, db_->ForTenant("other"));
  EXPECT_EQ(other.CreateSession(model_.spec(), doc_)->session.num_reused(), 0u);
  EXPECT_TRUE(other.List()->empty());
  EXPECT_EQ(other.Describe("doc").status().message(),
            [&] { return other.Describe("doc").status().message(); }());
  EXPECT_THAT(other.Drop("doc"), FailsWith(StatusCode::kNotFound, HasSubstr("doc")));
  EXPECT_EQ(other.Stats()->num_tokens, 0u);
  EXPECT_THAT(db_->ForTenant("a/b"), FailsWith(StatusCode::kInvalidArgument, HasSubstr("a/b")));
  SessionStart start = Start(doc_);
  EXPECT_EQ(other.Store(start.session, std::span(doc_).first(299)).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(DBTest, StatsTellATenantNothingOfTheOthersAndTheOwnerAll) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB other, db_->ForTenant("other"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB third, db_->ForTenant("third"));
  const std::string before = third.Stats()->ToJson();
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc"}), IsOk());
  SessionStart start = *other.CreateSession(model_.spec(), doc_);
  ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
  ATTNDB_ASSERT_OK(other.Store(start.session, doc_));
  SessionStart again = *other.CreateSession(model_.spec(), doc_);
  EXPECT_EQ(third.Stats()->ToJson(), before);
  const DBStats of_other = *other.Stats();
  EXPECT_EQ(of_other.num_stores, 1u);
  EXPECT_EQ(of_other.num_lookups, 2u);
  EXPECT_EQ(of_other.num_prompt_tokens, 2 * doc_.size());
  EXPECT_EQ(of_other.num_reused_tokens, doc_.size() - 1);
  EXPECT_EQ(of_other.num_sessions, 2u);
  EXPECT_EQ(of_other.memory_bytes, 0u);
  const DBStats of_all = *db_->Stats();
  EXPECT_EQ(of_all.num_stores, 2u);
  EXPECT_EQ(of_all.num_lookups, 3u);
  EXPECT_GE(of_all.bytes_written, 2 * of_other.bytes_written);
  EXPECT_GT(of_all.memory_bytes, 0u);
}

TEST_F(DBTest, BadPromptsAreRefused) {
  EXPECT_THAT(db_->CreateSession(model_.spec(), {}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("prompt is empty")));
  EXPECT_THAT(
      db_->CreateSession(model_.spec(), std::vector<TokenId>{1, -5}),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("token 1 of the prompt has id -5")));
  ModelSpec bad = model_.spec();
  bad.layers[0].num_q_heads = 5;
  EXPECT_THAT(db_->CreateSession(bad, doc_),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("num_q_heads")));
  EXPECT_THAT(db_->CreateSession(model_.spec(), doc_, {.plan = "nope"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("column 1")));
}

TEST_F(DBTest, ImportEqualsAppending) {
  const std::vector<TokenId> tokens = ToyModel::Tokens(5000, 8);  // More than one segment.
  std::vector<std::vector<float>> data;
  std::vector<LayerKv> layers;
  std::vector<TensorView> queries;
  for (LayerId layer = 0; layer < 2; ++layer) {
    const LayerSpec& s = model_.spec().layers[layer];
    data.push_back(model_.Keys(layer, tokens, 0));
    const TensorView k = TensorView::Contiguous(data.back().data(), DType::kFloat32, 5000,
                                                s.num_kv_heads, s.head_dim);
    data.push_back(model_.Values(layer, tokens, 0));
    layers.push_back({k, TensorView::Contiguous(data.back().data(), DType::kFloat32, 5000,
                                                s.num_kv_heads, s.v_head_dim)});
    data.push_back(model_.Queries(layer, tokens, 0));
    queries.push_back(TensorView::Contiguous(data.back().data(), DType::kFloat32, 5000,
                                             s.num_q_heads, s.head_dim));
  }
  ASSERT_THAT(db_->Import(model_.spec(), tokens, layers, {.name = "kv"}, queries), IsOk());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<ContextInfo> list, db_->List());
  ASSERT_EQ(list.size(), 1u);  // Checkpoints are gone.
  EXPECT_EQ(list[0].num_tokens, 5000u);
  // About 0.1 rows of q a token and kv head.
  EXPECT_NEAR(static_cast<double>(list[0].query_sample_bytes), 5000 * 0.1 * 5 * (64 + 8), 6000);
  ExpectAnswers(tokens, 4999);
  layers[1].v.shape[0] = 4999;
  EXPECT_THAT(db_->Import(model_.spec(), tokens, layers),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("layer 1: v has 4,999 rows")));
  EXPECT_THAT(db_->Import(model_.spec(), tokens, std::span(layers).first(1)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("K and V of 1 layer,")));
}

TEST_F(DBTest, DroppedContextsAreGoneAndTheirFilesToo) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc"}), IsOk());
  ASSERT_THAT(db_->Drop("doc"), IsOk());
  EXPECT_EQ(Start(doc_).session.num_reused(), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.File("store/segments")));
  EXPECT_THAT(db_->Drop("doc"), FailsWith(StatusCode::kNotFound, HasSubstr("doc")));
}

TEST_F(DBTest, ASessionOutlivesTheDropOfItsContext) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc"}), IsOk());
  {
    SessionStart start = Start(doc_);
    ASSERT_THAT(db_->Drop("doc"), IsOk());
    ASSERT_THAT(model_.Step(&start.session, start.rest), IsOk());
    std::vector<float> out;
    ASSERT_THAT(model_.Probe(&start.session, 7, &out), IsOk());
    const std::vector<float> expected = Expected(doc_);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-5);
    EXPECT_THAT(db_->Store(start.session, doc_, {.name = "again"}), IsOk());
  }
  // No mark says of its segment that it may go.
  for (const auto& file : std::filesystem::directory_iterator(dir_.File("store/segments"))) {
    EXPECT_NE(file.path().extension(), ".loose");
  }
  ExpectAnswers(doc_, 299);
  ASSERT_THAT(db_->Drop("again"), IsOk());
  EXPECT_TRUE(std::filesystem::is_empty(dir_.File("store/segments")));
}

TEST_F(DBTest, TtlCountsFromTheLastAccess) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc", .ttl = std::chrono::seconds(100)}), IsOk());
  now_us_ += 90'000'000;
  EXPECT_EQ(Start(doc_).session.num_reused(), 299u);
  now_us_ += 90'000'000;
  EXPECT_EQ(Start(doc_).session.num_reused(), 299u);
  now_us_ += 101'000'000;
  EXPECT_EQ(Start(doc_).session.num_reused(), 0u);
  ASSERT_THAT(db_->Compact(), IsOk());
  EXPECT_TRUE(db_->List()->empty());
}

// A Store of a session that forked writes two segments.
TEST_F(DBTest, AForkedSessionTakesTheNameOfAContextWhoseLifeIsOver) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc", .ttl = std::chrono::seconds(100)}), IsOk());
  now_us_ += 101'000'000;
  Session session = NewSession();
  std::vector<TokenId> tokens = ToyModel::Tokens(300, 5);
  ATTNDB_ASSERT_OK(model_.Step(&session, tokens));
  const Session fork = *session.Fork();
  const std::vector<TokenId> more = ToyModel::Tokens(20, 6);
  ATTNDB_ASSERT_OK(model_.Step(&session, more));
  tokens.insert(tokens.end(), more.begin(), more.end());
  EXPECT_THAT(db_->Store(session, tokens, {.name = "doc"}), IsOk());
  EXPECT_EQ(db_->Describe("doc")->segments.size(), 2u);
}

TEST_F(DBTest, QuotaEvictsWhatWasUsedLongestAgoButNotThePinned) {
  const auto store = [&](uint64_t seed, StoreOptions options) {
    now_us_ += 1'000'000;
    return StoreTokens(ToyModel::Tokens(100, seed), options);
  };
  ASSERT_THAT(store(11, {.name = "pinned", .pin = true}), IsOk());
  const uint64_t one = db_->Stats()->file_bytes;
  ASSERT_THAT(db_->SetQuota(one * 7 / 2), IsOk());
  ASSERT_THAT(store(12, {.name = "b"}), IsOk());
  ASSERT_THAT(store(13, {.name = "c"}), IsOk());
  now_us_ += 1'000'000;
  Start(ToyModel::Tokens(100, 12));  // Touches b, so c is the oldest.
  ASSERT_THAT(store(14, {.name = "d"}), IsOk());
  std::vector<std::string> names;
  for (const ContextInfo& info : *db_->List()) names.push_back(info.name);
  EXPECT_THAT(names, ElementsAre("pinned", "b", "d"));
  EXPECT_EQ(db_->Stats()->num_evictions, 1u);
  ASSERT_THAT(db_->Pin("b"), IsOk());
  ASSERT_THAT(db_->Pin("d"), IsOk());
  EXPECT_THAT(store(15, {}), FailsWith(StatusCode::kResourceExhausted, HasSubstr("quota")));
  EXPECT_EQ(db_->List()->size(), 3u);
}

TEST_F(DBTest, ContextsThatASessionUsesAreNotEvicted) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc"}), IsOk());
  SessionStart start = Start(doc_);
  ASSERT_THAT(db_->SetQuota(db_->Stats()->file_bytes + 1000), IsOk());
  EXPECT_THAT(StoreTokens(ToyModel::Tokens(100, 3)),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("quota")));
}

TEST_F(DBTest, ASecondWriterIsRefusedAndReadersAreNot) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc"}), IsOk());
  EXPECT_EQ(DB::Open(dir_.File("store")).status().code(), StatusCode::kBusy);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB reader, DB::Open(dir_.File("store"), {.read_only = true}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, reader.CreateSession(model_.spec(), doc_));
  EXPECT_EQ(start.session.num_reused(), 299u);
  ASSERT_THAT(model_.Step(&start.session, start.rest), IsOk());
  EXPECT_THAT(reader.Store(start.session, doc_, {.name = "x"}),
              FailsWith(StatusCode::kReadOnly, HasSubstr("reading only")));
  EXPECT_EQ(reader.Drop("doc").code(), StatusCode::kReadOnly);
  // The reader sees contexts that the writer stores meanwhile.
  ASSERT_THAT(StoreTokens(ToyModel::Tokens(80, 9), {.name = "new"}), IsOk());
  EXPECT_THAT(reader.Describe("new"), IsOk());
}

TEST_F(DBTest, ADamagedSegmentIsQuarantinedAndTheRestWorks) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "bad"}), IsOk());
  const std::vector<TokenId> good = ToyModel::Tokens(100, 21);
  ASSERT_THAT(StoreTokens(good, {.name = "good"}), IsOk());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, db_->Describe("bad"));
  db_.reset();
  {
    std::fstream file(SegmentFile(store(), info.segments[0]),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<int64_t>(info.segments[0].file_bytes / 2));  // In K or V.
    file.put('\x5a');
  }
  Open();
  SessionStart start = Start(doc_);
  EXPECT_EQ(start.session.num_reused(), 299u);  // Layers are verified when they are first used.
  EXPECT_THAT(model_.Step(&start.session, start.rest),
              FailsWith(StatusCode::kCorruption, HasSubstr(".seg")));
  EXPECT_EQ(Start(doc_).session.num_reused(), 0u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo damaged, db_->Describe("bad"));
  EXPECT_TRUE(damaged.damaged);
  EXPECT_THAT(damaged.segments[0].damage, HasSubstr(".seg"));
  ExpectAnswers(good, 99);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, db_->Verify());
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_THAT(report.damages[0].contexts, ElementsAre("bad"));
  EXPECT_THAT(db_->CreateSession(model_.spec(), doc_, {.context = "bad"}),
              FailsWith(StatusCode::kCorruption, HasSubstr("bad")));
}

TEST_F(DBTest, CompactMergesAndErases) {
  SessionStart start = Start(doc_);
  std::vector<TokenId> all;
  for (int turn = 0; turn < 6; ++turn) {
    const std::vector<TokenId> turn_tokens = ToyModel::Tokens(60, static_cast<uint64_t>(turn) + 1);
    ASSERT_THAT(model_.Step(&start.session, turn_tokens), IsOk());
    all.insert(all.end(), turn_tokens.begin(), turn_tokens.end());
    ASSERT_THAT(db_->Store(start.session, all, {.name = "chat", .replace = true}), IsOk());
  }
  ASSERT_THAT(start.session.Crop(200), IsOk());
  all.resize(200);
  ASSERT_THAT(db_->Store(start.session, all, {.name = "cut"}), IsOk());
  ASSERT_THAT(db_->Drop("chat"), IsOk());
  EXPECT_GT(db_->Describe("cut")->retained_bytes, 0u);
  ASSERT_THAT(db_->Compact(), IsOk());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, db_->Describe("cut"));
  EXPECT_EQ(info.retained_bytes, 0u);
  EXPECT_EQ(info.segments.size(), 1u);
  EXPECT_EQ(info.segments[0].num_tokens, 200u);
  ExpectAnswers(all, 199);
  EXPECT_TRUE(db_->Verify()->ok());
}

TEST_F(DBTest, ExplainPrefixSaysWhy) {
  ASSERT_THAT(StoreTokens(doc_, {.name = "doc"}), IsOk());
  std::vector<TokenId> prompt(doc_.begin(), doc_.begin() + 100);
  prompt.push_back(8888);
  ATTNDB_ASSERT_OK_AND_ASSIGN(PrefixExplain explain, db_->ExplainPrefix(model_.spec(), prompt));
  EXPECT_EQ(explain.num_reused, 100u);
  EXPECT_EQ(explain.context, "doc");
  EXPECT_THAT(explain.ToText(), HasSubstr("where the prompt has 8888"));
  ModelSpec other = model_.spec();
  other.fingerprint = "other";
  ATTNDB_ASSERT_OK_AND_ASSIGN(explain, db_->ExplainPrefix(other, prompt));
  EXPECT_EQ(explain.num_reused, 0u);
  EXPECT_THAT(explain.ToText(), HasSubstr("another model"));
  EXPECT_THAT(explain.ToJson(), HasSubstr("\"num_reused\":0"));
}

TEST_F(DBTest, OpenRefusesWhatIsNotAStore) {
  EXPECT_EQ(DB::Open(dir_.File("none"), {.create_if_missing = false}).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(DB::Open(dir_.File("none"), {.read_only = true}).status().code(),
            StatusCode::kNotFound);
  db_.reset();
  std::filesystem::remove(dir_.File("store/catalog.db"));
  Open();  // An empty store: nothing is lost.
  ASSERT_THAT(StoreTokens(doc_), IsOk());
  db_.reset();
  std::filesystem::remove(dir_.File("store/catalog.db"));
  EXPECT_THAT(DB::Open(dir_.File("store")),
              FailsWith(StatusCode::kCorruption, HasSubstr("holds segments but no catalog.db")));
  std::ofstream(dir_.File("store/catalog.db")) << "this is not a database, it is a text";
  EXPECT_FALSE(DB::Open(dir_.File("store")).ok());
}

TEST_F(DBTest, ListsOfPromptsGiveListsOfSessions) {
  ASSERT_THAT(StoreTokens(doc_), IsOk());
  const std::vector<TokenId> other = {1, 2, 3};
  const std::span<const TokenId> prompts[] = {doc_, other};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<SessionStart> starts,
                              db_->CreateSessions(model_.spec(), prompts));
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0].rest.size(), 1u);
  EXPECT_EQ(starts[1].rest.size(), 3u);
}

}  // namespace
}  // namespace attndb
