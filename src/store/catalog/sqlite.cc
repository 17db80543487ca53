#include "store/catalog/sqlite.h"

#include <cerrno>
#include <utility>

#include "common/check.h"
#include "store/catalog/checked_vfs.h"
#include "store/catalog/sqlite_fork.h"

namespace attndb::store {
namespace {

constexpr int kBusyTimeoutMs = 5000;
// A reader holds its snapshot for a call, milliseconds: waiting longer would only delay a commit
// that is durable already.
constexpr int kCheckpointTimeoutMs = 100;

// SQLite's URI form of a path, so that parameters can follow. Two slashes in front would begin a
// host name. So an empty host name precedes an absolute path.
std::string PathUri(const std::string& path) {
  std::string uri = path.starts_with('/') ? "file://" : "file:";
  for (const char c : path) {
    switch (c) {
      case '%':
        uri += "%25";
        break;
      case '?':
        uri += "%3f";
        break;
      case '#':
        uri += "%23";
        break;
      default:
        uri += c;
    }
  }
  return uri;
}

// A disk, a quota or a number of open files that is used up.
bool IsShortage(int system_errno) {
  return system_errno == ENOSPC || system_errno == EDQUOT || system_errno == EMFILE ||
         system_errno == ENFILE;
}

StatusCode CodeOf(int rc, int system_errno) {
  if (rc == SQLITE_IOERR_DATA) return StatusCode::kCorruption;
  switch (rc & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
      return StatusCode::kCorruption;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return StatusCode::kResourceExhausted;
    case SQLITE_READONLY:
      return StatusCode::kReadOnly;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return StatusCode::kBusy;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return IsShortage(system_errno) ? StatusCode::kResourceExhausted : StatusCode::kIoError;
    default:
      return StatusCode::kInternal;
  }
}

}  // namespace

Query::~Query() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  database_->idle_statements_[sql_] = std::move(statement_);
}

Query& Query::Bind(int64_t value) {
  Note(sqlite3_bind_int64(statement_.get(), next_parameter_++, value));
  return *this;
}

Query& Query::Bind(std::string_view text) {
  // A null pointer would bind NULL.
  const char* const data = text.data() == nullptr ? "" : text.data();
  Note(sqlite3_bind_text64(statement_.get(), next_parameter_++, data, text.size(), SQLITE_TRANSIENT,
                           SQLITE_UTF8));
  return *this;
}

Query& Query::Bind(std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    Note(sqlite3_bind_zeroblob(statement_.get(), next_parameter_++, 0));
  } else {
    Note(sqlite3_bind_blob64(statement_.get(), next_parameter_++, bytes.data(), bytes.size(),
                             SQLITE_TRANSIENT));
  }
  return *this;
}

Query& Query::Bind(std::nullopt_t) {
  Note(sqlite3_bind_null(statement_.get(), next_parameter_++));
  return *this;
}

Result<bool> Query::Step() {
  if (rc_ != SQLITE_OK) return database_->ErrorStatus(rc_);
  const int rc = sqlite3_step(statement_.get());
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  return database_->ErrorStatus(rc);
}

Status Query::Run() {
  ATTNDB_ASSIGN_OR_RETURN(const bool row, Step());
  ATTNDB_CHECK(!row);
  return {};
}

int64_t Query::Int(int column) const { return sqlite3_column_int64(statement_.get(), column); }

std::optional<int64_t> Query::OptionalInt(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Int(column);
}

std::string_view Query::Text(int column) const {
  const unsigned char* const text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::span<const std::byte> Query::Blob(int column) const {
  const void* const blob = sqlite3_column_blob(statement_.get(), column);
  if (blob == nullptr) return {};
  return {static_cast<const std::byte*>(blob),
          static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

bool Query::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

Result<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& path, Mode mode) {
  const char* const vfs = CheckedVfsName();
  if (vfs == nullptr) return Status::Unsupported("SQLite here has no \"unix\" VFS");
  LetForksWaitForSqlite();
  std::string uri = PathUri(path);
  int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  switch (mode) {
    case Mode::kReadWrite:
      flags |= SQLITE_OPEN_READWRITE;
      break;
    case Mode::kReadOnly:
      flags |= SQLITE_OPEN_READONLY;
      break;
    case Mode::kImmutable:
      flags |= SQLITE_OPEN_READONLY;
      uri += "?immutable=1";
      break;
    case Mode::kCreate:
      flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
      break;
  }
  sqlite3* handle = nullptr;
  const int rc = sqlite3_open_v2(uri.c_str(), &handle, flags, vfs);
  auto database = std::make_unique<SqliteDatabase>(path, handle);
  if (rc != SQLITE_OK) return database->ErrorStatus(rc);
  ATTNDB_RETURN_IF_ERROR(database->Configure(mode));
  return database;
}

SqliteDatabase::~SqliteDatabase() {
  idle_statements_.clear();  // A connection with statements would stay open.
}

Status SqliteDatabase::Configure(Mode mode) {
  sqlite3* const handle = handle_.get();
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  // A catalog that another party made must not run code or mislead SQLite. The connection's own
  // TEMP triggers and views still work.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_FKEY, 1, nullptr);
  if (mode == Mode::kCreate) {
    int reserved = static_cast<int>(kReservedBytes);
    sqlite3_file_control(handle, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
    ATTNDB_RETURN_IF_ERROR(Execute("PRAGMA page_size = 4096"));
  }
  return Execute(
      "PRAGMA cell_size_check = ON;"
      "PRAGMA temp_store = MEMORY;"  // For TEMP triggers and views: no files beside the catalog.
      "PRAGMA synchronous = FULL;"
      "PRAGMA secure_delete = ON;"  // Dropped tokens leave no trace in free pages.
      "PRAGMA wal_autocheckpoint = 0");
}

Status SqliteDatabase::Execute(const char* sql) {
  const int rc = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  return rc == SQLITE_OK ? Status() : ErrorStatus(rc);
}

Query SqliteDatabase::Prepare(const char* sql) {
  if (const auto it = idle_statements_.find(sql); it != idle_statements_.end() && it->second) {
    return Query(this, sql, std::move(it->second), SQLITE_OK);
  }
  sqlite3_stmt* statement = nullptr;
  const int rc = sqlite3_prepare_v3(handle_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement,
                                    /*pzTail=*/nullptr);
  return Query(this, sql, StatementPtr(statement), rc);
}

SqliteDatabase::LogState SqliteDatabase::Checkpoint() {
  sqlite3_busy_timeout(handle_.get(), kCheckpointTimeoutMs);
  // The log is emptied each time. The log of a crashed process then holds only commits that were
  // not acknowledged. A damaged frame makes SQLite silently drop it and all later frames.
  const int rc = sqlite3_wal_checkpoint_v2(handle_.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE,
                                           nullptr, nullptr);
  sqlite3_busy_timeout(handle_.get(), kBusyTimeoutMs);
  if (rc == SQLITE_OK) return LogState::kEmpty;
  if (rc == SQLITE_BUSY) return LogState::kHolds;
  int num_frames = 0;
  int num_copied = 0;
  const int again = sqlite3_wal_checkpoint_v2(handle_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE,
                                              &num_frames, &num_copied);
  return again == SQLITE_OK && num_frames == num_copied ? LogState::kCopied : LogState::kHolds;
}

Status SqliteDatabase::ErrorStatus(int rc) const {
  const int system_errno = handle_ == nullptr ? 0 : sqlite3_system_errno(handle_.get());
  std::string message = path_ + ": ";
  int64_t damaged_page = 0;
  if (handle_ != nullptr) {
    sqlite3_file_control(handle_.get(), "main", kDamagedPageOp, &damaged_page);
  }
  if (rc == SQLITE_IOERR_DATA && damaged_page != 0) {
    message += "page " + std::to_string(damaged_page) + " is damaged: its checksum does not match";
  } else {
    message += handle_ == nullptr ? sqlite3_errstr(rc) : sqlite3_errmsg(handle_.get());
    message += " (SQLite " + std::to_string(rc) + ")";
  }
  return Status(CodeOf(rc, system_errno), std::move(message));
}

Result<Transaction> Transaction::Begin(SqliteDatabase* database, Kind kind) {
  ATTNDB_RETURN_IF_ERROR(database->Run(kind == Kind::kWrite ? "BEGIN IMMEDIATE" : "BEGIN"));
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database_ == nullptr) return;
  // SQLite may have rolled back by itself (disk full); then this finds nothing to do.
  if (sqlite3_get_autocommit(database_->handle()) == 0) {
    (void)database_->Run("ROLLBACK").ok();
  }
}

Status Transaction::Commit(SqliteDatabase::LogState* log) {
  ATTNDB_CHECK(database_ != nullptr);
  ATTNDB_RETURN_IF_ERROR(database_->Run("COMMIT"));
  const SqliteDatabase::LogState left = std::exchange(database_, nullptr)->Checkpoint();
  if (log != nullptr) *log = left;
  return {};
}

}  // namespace attndb::store
