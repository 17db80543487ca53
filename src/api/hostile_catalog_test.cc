// Goal:   a catalog whose pages have right checksums and whose numbers are wrong is refused by
//         name, or does no harm: no call dies, and none reads beyond a segment.
// Method: each number, text and blob of each table, according to the catalog itself, is changed to
//         a value that no writer stores, by SQL through the store's own pages. Then all calls of a
//         store are made.
// Sizes:  under AddressSanitizer one of the wrong values for each column, in a long run all.
#include "api/db_test_util.h"
#include "store/catalog/sqlite.h"
#include "testing/sanitizers.h"
#include "testing/test_size.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::HasAddressSanitizer;
using test::IsLongRun;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

class HostileCatalogTest : public DBFixture {
 protected:
  // Contexts that share, wait for a merge and have tokens without users; planes of one of them, and
  // an index that a caller waits for. Each table has rows, except that of sound tokens, which has
  // its own test.
  HostileCatalogTest() : DBFixture(/*background_builds=*/true) {
    model_ = ToyModel(SpecWithSource());
    ATTNDB_EXPECT_OK(StoreTokens(planned_, {.name = "planned"}));
    ATTNDB_EXPECT_OK(db_->WaitForBackground());
    Open({.background_builds = false});
    StoreChain("chat", std::vector<uint64_t>{60, 50, 40}, 2);
    const TextLayout layout = {TextForm::kDocument, {{TextRole::kUser, {2, 10}}}};
    ATTNDB_EXPECT_OK(
        StoreTokens(doc_, {.name = "doc", .text_layout = layout, .title = "A book", .note = "n"}));
    ATTNDB_EXPECT_OK(
        StoreTokens(Concat(std::span(doc_).first(70), ToyModel::Tokens(30, 6)), {.name = "fork"}));
    ATTNDB_EXPECT_OK(StoreTokens(Concat(doc_, ToyModel::Tokens(5, 8)), {.name = "more"}));
    ATTNDB_EXPECT_OK(StoreTokens(ToyModel::Tokens(90, 7), {.ttl = std::chrono::hours(1)}));
    ATTNDB_EXPECT_OK(db_->DeclareEqual("toy", "another"));
    db_.reset();
    ATTNDB_EXPECT_OK(
        OpenCatalog().Execute("INSERT INTO wishes SELECT id, 'clustered' FROM segments"));
    catalog_.reset();
    std::filesystem::copy(store(), good(), std::filesystem::copy_options::recursive);
  }
  static ModelSpec SpecWithSource() {
    ModelSpec spec = ToyModel().spec();
    spec.source = {.name = "toy", .path = "/models/toy"};
    return spec;
  }
  store::SqliteDatabase& OpenCatalog() {
    catalog_ = *store::SqliteDatabase::Open(store() + "/catalog.db",
                                            store::SqliteDatabase::Mode::kReadWrite);
    return *catalog_;
  }
  std::string good() const { return dir_.File("good"); }

  int64_t NumRows(const std::string& table) {
    store::Query count = OpenCatalog().Select(("SELECT count(*) FROM " + table).c_str());
    return count.Step().value() ? count.Int(0) : 0;
  }

  void Change(const std::string& sql) {
    db_.reset();
    catalog_.reset();
    std::filesystem::remove_all(store());
    std::filesystem::copy(good(), store(), std::filesystem::copy_options::recursive);
    const std::string script =
        "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF; " + sql;
    // A change that SQLite itself refuses does no harm.
    (void)OpenCatalog().Execute(script.c_str());
    catalog_.reset();
  }

  // Whatever comes of it. The store may not even open.
  void AskForEverything() {
    Result<DB> opened = DB::Open(store(), {.num_threads = 1, .background_builds = false});
    if (!opened.ok()) return;
    db_.emplace(*std::move(opened));
    (void)db_->Stats();
    (void)db_->List();
    for (const char* const name : {"chat", "doc", "fork", "planned", "#1", "#2"}) {
      (void)db_->Describe(name);
      (void)db_->Note(name);
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
    AskForWhatIsDerived();
  }
  void AskForWhatIsDerived() {
    db_.reset();
    Result<DB> opened = DB::Open(store(), {.num_threads = 1, .measure_machine = false});
    if (!opened.ok()) return;
    db_.emplace(*std::move(opened));
    (void)Run(planned_, {.plan = "topk(k=8,bits=4)"});
    (void)db_->Build("planned", "planes");
    (void)db_->WaitForBackground();
    (void)db_->Stats();
    (void)db_->Drop("planned");
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
  const Tokens planned_ = ToyModel::Tokens(300, 9);

 private:
  std::unique_ptr<store::SqliteDatabase> catalog_;
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

struct Column {
  std::string table;
  std::string name;
  std::string type;
};

// The columns of all tables that the catalog has.
std::vector<Column> ColumnsOf(store::SqliteDatabase* catalog) {
  store::Query rows = catalog->Select(
      "SELECT t.name, c.name, c.type FROM sqlite_schema t JOIN pragma_table_info(t.name) c "
      "WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'");
  std::vector<Column> columns;
  while (rows.Step().value()) {
    columns.push_back(
        {std::string(rows.Text(0)), std::string(rows.Text(1)), std::string(rows.Text(2))});
  }
  return columns;
}

TEST_F(HostileCatalogTest, NoValueOfAnyTableKillsACall) {
  const std::map<std::string, std::vector<std::string>> values = {
      {"INTEGER", {"-1", "0", "41", "1 << 40", "9223372036854775807"}},
      {"TEXT", {"''", "'../x'", "CAST(zeroblob(9000) AS TEXT)"}},
      {"BLOB", {"x''", "zeroblob(32)", "zeroblob(9000)"}},
  };
  const std::vector<Column> columns = ColumnsOf(&OpenCatalog());
  EXPECT_GT(columns.size(), 60u);
  for (const Column& column : columns) {
    EXPECT_TRUE(column.table == "sound_tokens" || NumRows(column.table) > 0) << column.table;
  }
  const bool draws_one = HasAddressSanitizer() && !IsLongRun();
  size_t column_idx = 0;
  for (const auto& [table, column, type] : columns) {
    ASSERT_TRUE(values.contains(type)) << table << '.' << column << ' ' << type;
    std::vector<std::string> wrong = values.at(type);
    if (draws_one) wrong = {wrong[column_idx++ % wrong.size()]};
    for (const std::string& value : wrong) {
      SCOPED_TRACE(table + "." + column + " = " + value);
      Change("UPDATE OR IGNORE " + table + " SET " + column + " = " + value);
      AskForEverything();
    }
  }
}

}  // namespace
}  // namespace attndb
