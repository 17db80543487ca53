// A thin wrapper around SQLite: a connection, cached prepared statements, transactions.
//
//   Query query = database.Select("SELECT name FROM tenants WHERE id = ?", id);
//   ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
//   if (found) Use(query.Text(0));
//
// SQL is passed as literals only: statements are cached by the literal's address, and values are
// always bound, never pasted in.
//
// Errors:  kCorruption (SQLite's own finding, or a page's checksum: names file and page); kBusy;
//          kReadOnly; kResourceExhausted (disk full, memory); kIoError; kInternal (wrong SQL, a
//          constraint). A Query keeps an error of preparing or binding until Step().
// Threads: none of it is thread-safe: one connection, one thread at a time.
#ifndef ATTNDB_STORE_CATALOG_SQLITE_H_
#define ATTNDB_STORE_CATALOG_SQLITE_H_

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "attndb/result.h"
#include "attndb/status.h"

namespace attndb::store {

class SqliteDatabase;

struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using StatementPtr = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

// A running statement. Its destructor returns the statement to the database's cache.
class Query {
 public:
  Query(Query&& other) noexcept = default;
  Query& operator=(Query&&) = delete;
  ~Query();

  // Binds the next parameter. Text and bytes are copied.
  Query& Bind(int64_t value);
  Query& Bind(std::string_view text);
  Query& Bind(std::span<const std::byte> bytes);
  Query& Bind(std::nullopt_t);
  template <typename T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) Query& Bind(T value) {
    return Bind(static_cast<int64_t>(value));
  }
  template <typename T>
  Query& Bind(const std::optional<T>& value) {
    return value.has_value() ? Bind(*value) : Bind(std::nullopt);
  }

  // True: a row is there. False: no more rows.
  Result<bool> Step();
  // Runs a statement that returns no rows.
  Status Run();

  // Columns of the current row, from 0. NULL, or a value of another type, reads as 0 or empty.
  // Views live until the next Step.
  int64_t Int(int column) const;
  std::optional<int64_t> OptionalInt(int column) const;
  std::string_view Text(int column) const;
  std::span<const std::byte> Blob(int column) const;
  bool IsNull(int column) const;

 private:
  friend class SqliteDatabase;
  Query(SqliteDatabase* database, const char* sql, StatementPtr statement, int rc)
      : database_(database), sql_(sql), statement_(std::move(statement)), rc_(rc) {}
  void Note(int rc) {
    if (rc_ == SQLITE_OK) rc_ = rc;
  }

  SqliteDatabase* database_;  // Not owned; outlives this.
  const char* sql_;
  StatementPtr statement_;
  int next_parameter_ = 1;
  int rc_ = SQLITE_OK;  // First error of preparing and binding.
};

class SqliteDatabase {
 public:
  // The state of the log after Checkpoint.
  enum class LogState {
    kEmpty,
    kCopied,  // The log could not be cut off, but the file has all of its content.
    // A reader or an error prevented the copy: the log may hold commits that the file lacks.
    kHolds,
  };
  enum class Mode {
    kReadWrite,
    kReadOnly,
    kImmutable,  // Read-only, without locks: for a folder that can't be written.
    kCreate,     // The file must not exist.
  };

  // For Open only. Takes the handle, which may be null.
  SqliteDatabase(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}

  // Opens through the checking VFS and sets up the connection.
  static Result<std::unique_ptr<SqliteDatabase>> Open(const std::string& path, Mode mode);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  const std::string& path() const { return path_; }

  // Runs statements without parameters, separated by semicolons; rows are dropped.
  Status Execute(const char* sql);

  // A statement with its parameters bound in order. `sql` is a literal.
  template <typename... Values>
  Query Select(const char* sql, const Values&... values) {
    Query query = Prepare(sql);
    (query.Bind(values), ...);
    return query;
  }
  template <typename... Values>
  Status Run(const char* sql, const Values&... values) {
    return Select(sql, values...).Run();
  }

  int64_t last_insert_id() const { return sqlite3_last_insert_rowid(handle_.get()); }
  int64_t num_changes() const { return sqlite3_changes64(handle_.get()); }

  // Copies the write-ahead log into the database file and empties the log. Commits are durable in
  // any case.
  LogState Checkpoint();

  // The meaning of SQLite's result code, with the file, SQLite's message and the damaged page.
  Status ErrorStatus(int rc) const;

  sqlite3* handle() const { return handle_.get(); }

 private:
  friend class Query;
  struct CloseHandle {
    void operator()(sqlite3* handle) const { sqlite3_close(handle); }
  };
  Query Prepare(const char* sql);
  Status Configure(Mode mode);

  const std::string path_;
  std::unique_ptr<sqlite3, CloseHandle> handle_;
  // Statements that are not in use, by the address of their SQL; at most one per literal.
  std::unordered_map<const char*, StatementPtr> idle_statements_;
};

// A transaction that is rolled back unless it is committed.
class Transaction {
 public:
  enum class Kind { kRead, kWrite };  // kRead: one snapshot for all statements.

  static Result<Transaction> Begin(SqliteDatabase* database, Kind kind);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  // The changes are durable if it returns Ok; else nothing has changed. `log`: Checkpoint's result.
  Status Commit(SqliteDatabase::LogState* log = nullptr);

 private:
  explicit Transaction(SqliteDatabase* database) : database_(database) {}
  SqliteDatabase* database_;  // Not owned. Null: ended or moved from.
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_SQLITE_H_
