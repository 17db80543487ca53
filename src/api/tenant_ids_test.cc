// Goal:   everything that a tenant is told (ids, labels, chains and messages) is independent of
//         others' contexts. Ids are its own, from 1, and find the named contexts.
// Method: one script of calls, whose answers are written down, run in a store of one tenant and in
//         one where another stores, drops and merges before each of them; damage by a turned byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "api/db_test_util.h"
#include "api/segment_file_test_util.h"
#include "attndb/context_name.h"
#include "store/catalog/sqlite.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

int64_t Number(ContextId id) { return static_cast<int64_t>(id); }

// A tenant's calls, and all that they tell of ids.
class Script {
 public:
  // `others` is called before each call.
  Script(DB db, const ToyModel& model, std::function<void()> others)
      : db_(std::move(db)), model_(model), others_(std::move(others)) {}

  std::string Run() {
    StoreSome();
    LookThemUp();
    Session over = *db_.CreateSessionOver(model_.spec(), std::vector<std::string>{"#1", "b"});
    others_();
    for (const SessionContext& context : over.contexts()) {
      Say("over", context.id, context.name);
    }
    FindIn();
    Fail();
    others_();
    (void)db_.Compact().ok();
    Show("after compact");
    (void)db_.Drop("#3").ok();
    others_();
    Say("after a drop", StoreTokens(ToyModel::Tokens(70, 9), {}));
    Evict();
    Show("end");
    return std::move(text_);
  }

 private:
  void Say(const std::string& what, ContextId id, const std::string& more = "") {
    text_ += what + ": " + std::to_string(Number(id)) + " " + more + "\n";
  }
  void Say(const std::string& what, const Status& status) {
    text_ += what + ": " + std::string(status.message()) + "\n";
  }
  ContextId StoreTokens(std::span<const TokenId> tokens, const StoreOptions& options) {
    others_();
    SessionStart start = *db_.CreateSession(model_.spec(), tokens);
    Say("reused from", start.session.context_id());
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    others_();
    const Result<ContextId> id = db_.Store(start.session, tokens, options);
    if (!id.ok()) Say("not stored", id.status());
    Say("goes on from", start.session.context_id());
    if (id.ok()) Say("nothing new", *db_.Store(start.session, tokens));
    return id.ok() ? *id : ContextId::kNone;
  }
  void StoreSome() {
    Say("first", StoreTokens(a_, {}));
    Say("longer", StoreTokens(Concat(a_, ToyModel::Tokens(90, 3)), {.name = "b"}));
    others_();
    const test::KvArrays arrays(model_, c_);
    Say("imported", *db_.Import(model_.spec(), c_, arrays.layers()));
    SessionStart start = *db_.CreateSession(model_.spec(), d_);
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    others_();
    const PendingStore pending = *db_.StoreAsync(start.session, d_, {});
    Say("behind the session", *pending.Wait());
    others_();
    ATTNDB_EXPECT_OK(model_.Step(&start.session, ToyModel::Tokens(1, 8)));
    Say("goes on from", start.session.context_id());
    Say("fork", start.session.Fork()->context_id());
    Say("one token less reused", StoreTokens(Concat(a_, ToyModel::Tokens(90, 3)), {}));
  }
  void LookThemUp() {
    Show("stored");
    others_();
    for (const char* const label : {"#1", "#2", "#3", "#4", "#5", "#6"}) {
      const Result<ContextInfo> info = db_.Describe(label);
      info.ok() ? Say(label, info->id, info->name) : Say(label, info.status());
    }
    EXPECT_EQ(*db_.Tokens("#3"), c_);
    const auto session = db_.CreateSession(model_.spec(), c_, {.context = "#3"});
    Say("by label", session->session.context_id());
    text_ += db_.ExplainPrefix(model_.spec(), d_, {})->ToText();
    ATTNDB_EXPECT_OK(db_.Pin("#1", true));
    ATTNDB_EXPECT_OK(db_.SetTtl("#1", std::chrono::seconds(100)));
    EXPECT_TRUE(db_.Describe("#1")->pinned);
  }
  Result<FindResult> Find(const std::vector<std::string>& contexts) const {
    const uint32_t head_dim = model_.spec().layers[0].head_dim;
    const std::vector<float> q(head_dim, 0.5F);
    const FindQuery query = {.heads = {{0, 0}}, .q = {test::ViewOf(q, 1, head_dim)}};
    return db_.Find(model_.spec(), query, {.limit = 5, .contexts = contexts});
  }
  void FindIn() {
    others_();
    const FindResult found = *Find({"#1", "#3", "#4"});
    for (const Passage& passage : found.passages) {
      Say("passage", passage.context_id, passage.context);
    }
  }
  void Fail() {
    others_();
    Say("unknown", db_.Describe("#77").status());
    Say("unknown", db_.Drop("#78"));
    Say("unknown", Find({"#79"}).status());
    Say("unknown", db_.CreateSession(model_.spec(), a_, {.context = "#80"}).status());
    Say("no pieces",
        db_.CreateSessionOver(model_.spec(), std::vector<std::string>{"#1", "#1"}).status());
    Say("taken", StoreTokens(ToyModel::Tokens(30, 50), {.name = "b"}));
  }
  // A quota that has room for little more.
  void Evict() {
    ATTNDB_EXPECT_OK(db_.SetQuota(db_.Stats()->file_bytes + 1000));
    Say("evicting", StoreTokens(ToyModel::Tokens(80, 60), {}));
    const std::vector<std::string> evicted = db_.Stats()->evicted;
    for (const std::string& label : evicted) text_ += "evicted " + label + "\n";
    ATTNDB_EXPECT_OK(db_.SetQuota(0));
  }
  void Show(const std::string& when) {
    text_ += when + "\n";
    others_();
    const std::vector<ContextInfo> list = *db_.List();
    for (const ContextInfo& listed : list) {
      const std::string label = IdName(listed.id);
      const ContextInfo info = *db_.Describe(label);
      text_ += label + " " + info.name + " " + std::to_string(info.num_tokens);
      for (const SegmentInfo& segment : info.segments) {
        text_ += " " + std::to_string(segment.segment_id) + ":" +
                 std::to_string(segment.num_tokens_used) + "/" +
                 std::to_string(segment.num_contexts);
      }
      text_ += "\n";
    }
    EXPECT_TRUE(db_.Verify()->ok());
  }

  const Tokens a_ = ToyModel::Tokens(200, 1);
  const Tokens c_ = ToyModel::Tokens(150, 2);
  const Tokens d_ = ToyModel::Tokens(120, 4);
  DB db_;
  const ToyModel& model_;
  const std::function<void()> others_;
  std::string text_;
};

class TenantIdsTest : public DBFixture {
 protected:
  // Another tenant's turn: contexts come, grow, go and are merged.
  void ActAs(const DB& other) {
    const Tokens tokens = ToyModel::Tokens(40, seed_++);
    SessionStart start = *other.CreateSession(model_.spec(), tokens);
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    ATTNDB_EXPECT_OK(other.Store(start.session, tokens, {.name = "theirs", .replace = true}));
    const Tokens more = ToyModel::Tokens(30, seed_++);
    ATTNDB_EXPECT_OK(model_.Step(&start.session, more));
    ATTNDB_EXPECT_OK(other.Store(start.session, Concat(tokens, more)));
    if (seed_ % 3 == 0) {
      ATTNDB_EXPECT_OK(other.Compact());
    }
  }

  uint64_t seed_ = 1000;
};

TEST_F(TenantIdsTest, WhatATenantIsToldIsTheSameWhateverOthersStore) {
  const std::string alone = Script(*db_->ForTenant("mine"), model_, [] {}).Run();
  EXPECT_THAT(alone, HasSubstr("\nfirst: 1 \n"));
  EXPECT_THAT(alone, HasSubstr("\n#6: no context #6\n"));
  EXPECT_THAT(alone, HasSubstr("\nevicted #"));
  const std::string beside = dir_.File("beside");
  db_ = *DB::Open(beside, {.background_builds = false, .clock = [this] { return now_us_; }});
  const DB other = *db_->ForTenant("theirs");
  const std::string among = Script(*db_->ForTenant("mine"), model_, [&] { ActAs(other); }).Run();
  EXPECT_EQ(among, alone);
  EXPECT_GT(other.List()->size(), 20u);
  EXPECT_TRUE(db_->Verify()->ok());
}

TEST_F(TenantIdsTest, IdsOutliveDropsAndOpens) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId first, StoreTokens(ToyModel::Tokens(50, 1)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId second, StoreTokens(ToyModel::Tokens(50, 2)));
  EXPECT_EQ(std::pair(first, second), std::pair(ContextId{1}, ContextId{2}));
  ATTNDB_ASSERT_OK(db_->Drop("#2"));
  Open();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId third, StoreTokens(ToyModel::Tokens(50, 3)));
  EXPECT_EQ(third, ContextId{3});
  EXPECT_EQ(db_->Describe("#3")->segments[0].segment_id, 3);
  EXPECT_THAT(db_->Describe("#2"), FailsWith(StatusCode::kNotFound, HasSubstr("#2")));
}

// The file has the store's id as its name; people with access to the folder need it.
TEST_F(TenantIdsTest, DamageNamesTheTenantsSegmentAndTheStoresFile) {
  ActAs(*db_->ForTenant("theirs"));
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(300, 1), {.name = "doc"}));
  const SegmentInfo segment = db_->Describe("doc")->segments[0];
  EXPECT_EQ(segment.segment_id, 1);
  const std::string path = test::SegmentFile(store(), segment);
  db_.reset();
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<int64_t>(segment.file_bytes / 2)).put('\x5a');
  }
  Open();
  const VerifyReport report = *db_->Verify();
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_EQ(report.damages[0].segment_id, 1);
  EXPECT_EQ(store() + "/" + report.damages[0].file, path);
  EXPECT_NE(report.damages[0].file, "segments/0000000000000001.seg");
  EXPECT_EQ(report.damages[0].contexts, std::vector<std::string>{"doc"});
}

// The catalog's rows, and the files put aside, are of all tenants.
TEST_F(TenantIdsTest, DamageOfTheCatalogIsToldInFullToTheOwnerAlone) {
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(50, 1), {.name = "doc"}));
  db_.reset();
  std::ofstream(store() + "/segments/00000000000000ff.seg") << "of another time";
  {
    const auto catalog = *store::SqliteDatabase::Open(store() + "/catalog.db",
                                                      store::SqliteDatabase::Mode::kReadWrite);
    ATTNDB_ASSERT_OK(catalog->Execute("UPDATE tenant_uses SET num_contexts = 7"));
  }
  Open();
  const VerifyReport told = *db_->ForTenant("mine")->Verify();
  ASSERT_EQ(told.damages.size(), 1u);
  EXPECT_EQ(told.damages[0].message, "catalog.db: is damaged: the owner's Verify says where");
  const VerifyReport whole = *db_->Verify();
  ASSERT_EQ(whole.damages.size(), 2u);
  EXPECT_THAT(whole.damages[0].message, HasSubstr("counts its contexts wrongly"));
  EXPECT_THAT(whole.damages.back().message, HasSubstr("newer catalog.db"));
}

}  // namespace
}  // namespace attndb
