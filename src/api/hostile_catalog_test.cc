// Goal:   a catalog whose pages have right checksums and whose numbers are wrong is refused by
//         name, or does no harm: no call dies, and none reads beyond a segment.
// Method: each number of each table of a store is changed to what no writer stores, by SQL through
//         the store's own pages; then whatever a store can be asked for is asked.
#include "api/db_test_util.h"
#include "store/catalog/sqlite.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

class HostileCatalogTest : public DBFixture {
 protected:
  // Contexts that share, wait to be merged and have tokens that nobody uses.
  HostileCatalogTest() {
    StoreChain("chat", std::vector<uint64_t>{60, 50, 40}, 2);
    ATTNDB_EXPECT_OK(StoreTokens(doc_, {.name = "doc"}));
    ATTNDB_EXPECT_OK(
        StoreTokens(Concat(std::span(doc_).first(70), ToyModel::Tokens(30, 6)), {.name = "fork"}));
    ATTNDB_EXPECT_OK(StoreTokens(ToyModel::Tokens(90, 7), {.ttl = std::chrono::hours(1)}));
    db_.reset();
    std::filesystem::copy(store(), good(), std::filesystem::copy_options::recursive);
  }
  std::string good() const { return dir_.File("good"); }

  void Change(const std::string& sql) {
    db_.reset();
    std::filesystem::remove_all(store());
    std::filesystem::copy(good(), store(), std::filesystem::copy_options::recursive);
    const auto catalog = *store::SqliteDatabase::Open(store() + "/catalog.db",
                                                      store::SqliteDatabase::Mode::kReadWrite);
    const std::string script =
        "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF; " + sql;
    (void)catalog->Execute(script.c_str());  // What SQLite itself refuses harms nobody.
  }

  // Whatever comes of it. The store may not even open.
  void AskForEverything() {
    Result<DB> opened = DB::Open(store(), {.background_builds = false});
    if (!opened.ok()) return;
    db_.emplace(*std::move(opened));
    (void)db_->Stats();
    (void)db_->List();
    for (const char* const name : {"chat", "doc", "fork", "#1", "#2"}) {
      (void)db_->Describe(name);
      (void)db_->Tokens(name);
      (void)db_->ExplainPrefix(model_.spec(), doc_, {.context = name});
      (void)Run(doc_, {.context = name});
    }
    (void)Run(doc_);
    (void)Run(Concat(std::span(doc_).first(20), Tokens{1, 2, 3}));
    (void)db_->ExplainPrefix(model_.spec(), doc_);
    (void)db_->Verify();
    (void)db_->Compact({.context = "doc"});
    (void)db_->Compact();
    (void)db_->Compact({.segment_tokens = 16});
    (void)db_->SetQuota(200'000);
    (void)Run(Concat(doc_, Tokens{1, 2, 3}));
    (void)db_->Pin("doc", true);
    (void)db_->Drop("fork");
    (void)db_->Drop("doc");
    (void)db_->Verify();
  }

  // A session on the prompt that is run and stored.
  Status Run(std::span<const TokenId> tokens, const SessionOptions& options = {}) {
    Result<SessionStart> start = db_->CreateSession(model_.spec(), tokens, options);
    ATTNDB_RETURN_IF_ERROR(start.status());
    ATTNDB_RETURN_IF_ERROR(model_.Step(&start->session, start->rest));
    return db_->Store(start->session, tokens).status();
  }

  const Tokens doc_ = ToyModel::Tokens(120, 5);
};

TEST_F(HostileCatalogTest, CompactRefusesASegmentOfNoTokens) {
  Change("UPDATE segments SET num_tokens = 0");
  Open();
  EXPECT_THAT(db_->Compact(), FailsWith(StatusCode::kCorruption, HasSubstr("which has 0")));
  EXPECT_THAT(db_->Describe("doc"), FailsWith(StatusCode::kCorruption, HasSubstr("which has 0")));
}

TEST_F(HostileCatalogTest, CompactRefusesAChainThatUsesMoreTokensThanItsSegmentHas) {
  Change("UPDATE chain SET num_tokens_used = 1000000");
  Open();
  EXPECT_THAT(db_->Compact(),
              FailsWith(StatusCode::kCorruption, HasSubstr("uses 1000000 tokens of segment")));
  EXPECT_THAT(db_->Describe("doc"), FailsWith(StatusCode::kCorruption, HasSubstr("1000000")));
}

// How many tokens of a damaged segment are sound.
TEST_F(HostileCatalogTest, SoundTokensThatASegmentDoesNotHaveAreNamed) {
  const std::string damaged = "UPDATE segments SET damage = 'page'; ";
  for (const char* const number : {"num_tokens + 1", "-1", "1 << 40", "9223372036854775807"}) {
    SCOPED_TRACE(number);
    const std::string sql =
        "INSERT INTO sound_tokens SELECT id, " + std::string(number) + " FROM segments; ";
    for (const std::string& prefix : {damaged, std::string()}) {
      Change(prefix + sql);
      Open();
      const VerifyReport report = *db_->Verify();
      EXPECT_TRUE(std::ranges::any_of(report.damages, [](const auto& damage) {
        return damage.message.find("whole tokens") != std::string::npos;
      }));
      Change(prefix + sql);
      AskForEverything();
    }
  }
}

TEST_F(HostileCatalogTest, NoNumberOfAnyTableKillsACall) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> tables = {
      {"meta", {"next_segment"}},
      {"tenants", {"quota_bytes"}},
      {"segments",
       {"id", "tenant", "model", "first_position", "num_tokens", "file_bytes", "kv_bytes",
        "query_bytes"}},
      {"contexts",
       {"model", "first_position", "num_tokens", "kv_bytes", "created_us", "last_access_us",
        "ttl_s", "damaged", "leaf"}},
      {"chain", {"context", "idx", "segment", "num_tokens_used"}},
      {"nodes", {"parent", "num_uses", "context"}},
      {"prefix_roots", {"node", "model", "first_position"}},
      {"segment_uses", {"num_contexts", "num_changes", "num_settled"}},
      {"tenant_uses",
       {"num_contexts", "num_segments", "num_tokens", "file_bytes", "segment_tokens"}},
      {"context_numbers", {"context", "tenant", "number"}},
      {"segment_numbers", {"segment", "tenant", "number"}},
      {"next_numbers", {"tenant", "context", "segment"}},
  };
  for (const auto& [table, columns] : tables) {
    for (const std::string& column : columns) {
      for (const char* const value : {"-1", "0", "41", "1 << 40", "9223372036854775807"}) {
        SCOPED_TRACE(table + "." + column + " = " + value);
        Change("UPDATE OR IGNORE " + table + " SET " + column + " = " + value);
        AskForEverything();
      }
    }
  }
}

}  // namespace
}  // namespace attndb
