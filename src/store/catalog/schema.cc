#include "store/catalog/schema.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include "common/hex.h"
#include "common/sha256.h"
#include "store/catalog/catalog_types.h"
#include "store/catalog/checked_vfs.h"
#include "store/catalog/counters.h"
#include "store/catalog/raw_file.h"
#include "store/catalog/tenant_numbers.h"

namespace attndb::store {
namespace {

// One statement each, as SQLite keeps them in sqlite_schema: each open compares the two. The
// statements of version 1 come first; additions of later versions follow. The meaning of tables and
// columns: docs/formats/catalog.md.
constexpr const char* kSchema[] = {
    "CREATE TABLE meta(\n"
    "  id INTEGER PRIMARY KEY CHECK(id = 1),\n"
    "  uuid BLOB NOT NULL CHECK(length(uuid) = 16),\n"
    "  next_segment INTEGER NOT NULL) STRICT",

    "CREATE TABLE tenants(\n"
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,\n"
    "  name TEXT NOT NULL UNIQUE,\n"
    "  secret BLOB NOT NULL CHECK(length(secret) = 32),\n"
    "  quota_bytes INTEGER NOT NULL) STRICT",

    "CREATE TABLE models(\n"
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,\n"
    "  identity BLOB NOT NULL UNIQUE CHECK(length(identity) = 32),\n"
    "  layout BLOB NOT NULL CHECK(length(layout) = 32),\n"
    "  fingerprint BLOB NOT NULL,\n"
    "  spec BLOB NOT NULL) STRICT",
    "CREATE INDEX models_by_layout ON models(layout)",

    "CREATE TABLE equal_fingerprints(\n"
    "  a BLOB NOT NULL,\n"
    "  b BLOB NOT NULL,\n"
    "  PRIMARY KEY(a, b)) STRICT, WITHOUT ROWID",

    "CREATE TABLE segments(\n"
    "  id INTEGER PRIMARY KEY,\n"
    "  tenant INTEGER NOT NULL REFERENCES tenants(id),\n"
    "  model INTEGER NOT NULL REFERENCES models(id),\n"
    "  first_position INTEGER NOT NULL,\n"
    "  num_tokens INTEGER NOT NULL CHECK(num_tokens > 0),\n"
    "  file_bytes INTEGER NOT NULL,\n"
    "  kv_bytes INTEGER NOT NULL,\n"
    "  query_bytes INTEGER NOT NULL,\n"
    "  root_hash BLOB NOT NULL CHECK(length(root_hash) = 32),\n"
    "  non_finite BLOB NOT NULL,\n"
    "  damage TEXT) STRICT",
    "CREATE INDEX segments_by_tenant ON segments(tenant)",

    "CREATE TABLE companions(\n"
    "  segment INTEGER NOT NULL REFERENCES segments(id) ON DELETE CASCADE,\n"
    "  kind TEXT NOT NULL,\n"
    "  generation INTEGER NOT NULL,\n"
    "  required INTEGER NOT NULL CHECK(required IN (0, 1)),\n"
    "  file_bytes INTEGER NOT NULL,\n"
    "  root_hash BLOB NOT NULL CHECK(length(root_hash) = 32),\n"
    "  PRIMARY KEY(segment, kind, generation)) STRICT, WITHOUT ROWID",

    "CREATE TABLE nodes(\n"
    "  id INTEGER PRIMARY KEY,\n"
    "  parent INTEGER REFERENCES nodes(id),\n"
    "  key BLOB NOT NULL UNIQUE CHECK(length(key) = 32),\n"
    "  tokens BLOB NOT NULL,\n"
    "  num_uses INTEGER NOT NULL,\n"
    "  context INTEGER) STRICT",
    "CREATE INDEX nodes_by_tokens ON nodes(parent, tokens)",
    "CREATE INDEX nodes_by_context ON nodes(parent, context) WHERE context IS NOT NULL",

    "CREATE TABLE prefix_roots(\n"
    "  node INTEGER PRIMARY KEY REFERENCES nodes(id),\n"
    "  tenant INTEGER NOT NULL REFERENCES tenants(id),\n"
    "  model INTEGER NOT NULL REFERENCES models(id),\n"
    "  first_position INTEGER NOT NULL,\n"
    "  UNIQUE(tenant, model, first_position)) STRICT",

    "CREATE TABLE contexts(\n"
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,\n"
    "  tenant INTEGER NOT NULL REFERENCES tenants(id),\n"
    "  model INTEGER NOT NULL REFERENCES models(id),\n"
    "  name TEXT,\n"
    "  first_position INTEGER NOT NULL,\n"
    "  num_tokens INTEGER NOT NULL CHECK(num_tokens > 0),\n"
    "  kv_bytes INTEGER NOT NULL,\n"
    "  created_us INTEGER NOT NULL,\n"
    "  last_access_us INTEGER NOT NULL,\n"
    "  ttl_s INTEGER,\n"
    "  pinned INTEGER NOT NULL CHECK(pinned IN (0, 1)),\n"
    "  damaged INTEGER NOT NULL CHECK(damaged IN (0, 1)),\n"
    "  leaf INTEGER NOT NULL REFERENCES nodes(id),\n"
    "  UNIQUE(tenant, name)) STRICT",
    "CREATE INDEX contexts_by_leaf ON contexts(leaf, damaged)",
    "CREATE INDEX contexts_by_expiry ON contexts(last_access_us + ttl_s * 1000000)\n"
    "  WHERE ttl_s IS NOT NULL AND NOT pinned",

    "CREATE TABLE chain(\n"
    "  context INTEGER NOT NULL REFERENCES contexts(id),\n"
    "  idx INTEGER NOT NULL,\n"
    "  segment INTEGER NOT NULL REFERENCES segments(id),\n"
    "  num_tokens_used INTEGER NOT NULL CHECK(num_tokens_used > 0),\n"
    "  PRIMARY KEY(context, idx)) STRICT, WITHOUT ROWID",
    "CREATE INDEX chain_by_segment ON chain(segment, num_tokens_used)",

    "CREATE TABLE wishes(\n"
    "  segment INTEGER NOT NULL REFERENCES segments(id) ON DELETE CASCADE,\n"
    "  kind TEXT NOT NULL,\n"
    "  PRIMARY KEY(segment, kind)) STRICT, WITHOUT ROWID",

    "CREATE TABLE segment_uses(\n"
    "  segment INTEGER PRIMARY KEY REFERENCES segments(id) ON DELETE CASCADE,\n"
    "  tenant INTEGER NOT NULL REFERENCES tenants(id),\n"
    "  num_contexts INTEGER NOT NULL DEFAULT 0,\n"
    "  num_changes INTEGER NOT NULL DEFAULT 0,\n"
    "  num_settled INTEGER NOT NULL DEFAULT 0) STRICT",
    "CREATE INDEX segment_uses_unsettled ON segment_uses(tenant)\n"
    "  WHERE num_changes <> num_settled",

    "CREATE TABLE tenant_uses(\n"
    "  tenant INTEGER PRIMARY KEY REFERENCES tenants(id),\n"
    "  num_contexts INTEGER NOT NULL DEFAULT 0,\n"
    "  num_segments INTEGER NOT NULL DEFAULT 0,\n"
    "  num_tokens INTEGER NOT NULL DEFAULT 0,\n"
    "  file_bytes INTEGER NOT NULL DEFAULT 0,\n"
    "  num_damaged INTEGER NOT NULL DEFAULT 0,\n"
    "  num_companions INTEGER NOT NULL DEFAULT 0,\n"
    "  companion_bytes INTEGER NOT NULL DEFAULT 0,\n"
    "  segment_tokens INTEGER NOT NULL DEFAULT 0) STRICT",
    "CREATE INDEX contexts_by_access ON contexts(tenant, last_access_us) WHERE NOT pinned",

    "CREATE INDEX nodes_of_cuts ON nodes(parent) WHERE tokens >= x'80'",

    "CREATE TABLE sound_tokens(\n"
    "  segment INTEGER PRIMARY KEY REFERENCES segments(id) ON DELETE CASCADE,\n"
    "  num_tokens INTEGER NOT NULL CHECK(num_tokens > 0)) STRICT",

    "CREATE TABLE context_numbers(\n"
    "  context INTEGER PRIMARY KEY REFERENCES contexts(id) ON DELETE CASCADE,\n"
    "  tenant INTEGER NOT NULL REFERENCES tenants(id),\n"
    "  number INTEGER NOT NULL CHECK(number > 0),\n"
    "  UNIQUE(tenant, number)) STRICT",

    "CREATE TABLE segment_numbers(\n"
    "  segment INTEGER PRIMARY KEY REFERENCES segments(id) ON DELETE CASCADE,\n"
    "  tenant INTEGER NOT NULL REFERENCES tenants(id),\n"
    "  number INTEGER NOT NULL CHECK(number > 0),\n"
    "  UNIQUE(tenant, number)) STRICT",

    "CREATE TABLE next_numbers(\n"
    "  tenant INTEGER PRIMARY KEY REFERENCES tenants(id),\n"
    "  context INTEGER NOT NULL CHECK(context > 0),\n"
    "  segment INTEGER NOT NULL CHECK(segment > 0)) STRICT",

    "CREATE TABLE model_sources(\n"
    "  tenant INTEGER NOT NULL REFERENCES tenants(id),\n"
    "  model INTEGER NOT NULL REFERENCES models(id),\n"
    "  name TEXT NOT NULL,\n"
    "  path TEXT NOT NULL,\n"
    "  PRIMARY KEY(tenant, model)) STRICT, WITHOUT ROWID",

    "CREATE TABLE text_layouts(\n"
    "  context INTEGER PRIMARY KEY REFERENCES contexts(id) ON DELETE CASCADE,\n"
    "  text TEXT NOT NULL) STRICT",

    "CREATE TABLE context_titles(\n"
    "  context INTEGER PRIMARY KEY REFERENCES contexts(id) ON DELETE CASCADE,\n"
    "  title TEXT NOT NULL) STRICT",

    "CREATE TABLE context_notes(\n"
    "  context INTEGER PRIMARY KEY REFERENCES contexts(id) ON DELETE CASCADE,\n"
    "  note BLOB NOT NULL CHECK(length(note) BETWEEN 1 AND 16777216)) STRICT",

    "CREATE TABLE continuations(\n"
    "  context INTEGER PRIMARY KEY REFERENCES contexts(id) ON DELETE CASCADE,\n"
    "  continues INTEGER NOT NULL REFERENCES contexts(id) CHECK(continues < context)) STRICT",
    "CREATE INDEX continuations_by_continued ON continuations(continues)",
};
constexpr size_t kNumStatementsOfNotes = 4;
constexpr size_t kNumStatementsOfLayouts = 1;
constexpr size_t kNumStatementsOfSources = 1;
constexpr size_t kNumStatementsOfNumbers = 3;
constexpr size_t kNumStatementsOfSoundTokens = 1;
constexpr size_t kNumStatementsOfCuts = 1;
constexpr size_t kNumStatementsOfWishes = 1;
constexpr size_t kNumStatementsOfCounters = 4;

// The statements that make a catalog of a version.
std::span<const char* const> SchemaOf(int64_t version) {
  size_t num_statements = std::size(kSchema);
  if (version < kFirstVersionWithNotes) num_statements -= kNumStatementsOfNotes;
  if (version < kFirstVersionWithLayouts) num_statements -= kNumStatementsOfLayouts;
  if (version < kFirstVersionWithSources) num_statements -= kNumStatementsOfSources;
  if (version < kFirstVersionWithNumbers) num_statements -= kNumStatementsOfNumbers;
  if (version < kFirstVersionWithSoundTokens) num_statements -= kNumStatementsOfSoundTokens;
  if (version < kFirstVersionWithCuts) num_statements -= kNumStatementsOfCuts;
  if (version < kFirstVersionWithCounters) num_statements -= kNumStatementsOfCounters;
  if (version < kFirstVersionWithWishes) num_statements -= kNumStatementsOfWishes;
  return std::span(kSchema).first(num_statements);
}

struct CloseFd {
  ~CloseFd() {
    if (fd >= 0) close(fd);
  }
  int fd;
};

Status ErrnoStatus(const std::string& path, std::string_view what) {
  const int error = errno;
  const std::string message = path + ": " + std::string(what) + ": " + std::strerror(error);
  if (error == ENOENT) return Status::NotFound(message);
  if (error == ENOSPC || error == EDQUOT) return Status::ResourceExhausted(message);
  if (error == EROFS) return Status::ReadOnly(message);
  return Status::IoError(message);
}

uint32_t BigEndian32(std::span<const unsigned char> bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | bytes[offset + i];
  return value;
}

Status Newer(const std::string& path, int64_t found) {
  return Status::Unsupported(path + ": catalog version " + std::to_string(found) +
                             ", expected at most " + std::to_string(kSchemaVersion) +
                             ": made by a newer attndb");
}

Status SyncPath(const std::string& path) {
  const CloseFd file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return ErrnoStatus(path, "open");
  if (fsync(file.fd) != 0) return ErrnoStatus(path, "fsync");
  return {};
}

constexpr mode_t kOwnerOnly =
    0600;  // Tokens, names, and the secrets that block keys are made with.

// An empty file, so that SQLite makes none: it would be for all to read.
Status MakeEmptyFile(const std::string& path) {
  const CloseFd file{open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly)};
  return file.fd < 0 ? ErrnoStatus(path, "create") : Status();
}

Status SetVersion(SqliteDatabase* database) {
  static_assert(kSchemaVersion == 9, "the statement says so");
  return database->Execute("PRAGMA user_version = 9");
}

Status FillNewCatalog(const std::string& path) {
  ATTNDB_RETURN_IF_ERROR(MakeEmptyFile(path));
  ATTNDB_ASSIGN_OR_RETURN(const auto database,
                          SqliteDatabase::Open(path, SqliteDatabase::Mode::kCreate));
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction,
                          Transaction::Begin(database.get(), Transaction::Kind::kWrite));
  for (const char* statement : kSchema) ATTNDB_RETURN_IF_ERROR(database->Execute(statement));
  static_assert(kApplicationId == 0x6174746e, "the statement says so");
  ATTNDB_RETURN_IF_ERROR(database->Execute("PRAGMA application_id = 0x6174746e"));
  ATTNDB_RETURN_IF_ERROR(SetVersion(database.get()));
  StoreUuid uuid;
  ATTNDB_RETURN_IF_ERROR(RandomBytes(uuid));
  ATTNDB_RETURN_IF_ERROR(
      database->Run("INSERT INTO meta VALUES(1, ?, 1)", std::span<const std::byte>(uuid)));
  ATTNDB_RETURN_IF_ERROR(transaction.Commit());
  return database->Execute("PRAGMA journal_mode = WAL");
}

Result<int64_t> PragmaInt(SqliteDatabase* database, const char* pragma) {
  Query query = database->Select(pragma);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  return found ? query.Int(0) : 0;
}

}  // namespace

Status CheckCatalogFile(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) return ErrnoStatus(path, "open");
  std::array<unsigned char, 100> header{};
  ATTNDB_ASSIGN_OR_RETURN(const RawFile file, RawFile::Open(path));
  const Status read = file.Read(0, std::as_writable_bytes(std::span(header)));
  if (!read.ok() && read.code() != StatusCode::kCorruption) return read;
  if (!read.ok() || std::memcmp(header.data(), "SQLite format 3", 16) != 0) {
    return Status::Corruption(path + ": not a catalog: no SQLite header in its first 100 bytes");
  }
  const uint32_t application_id = BigEndian32(header, 68);
  if (application_id != kApplicationId) {
    return Status::Corruption(path + ": not a catalog: SQLite application id " +
                              HexU32(application_id) + ", expected " +
                              HexU32(static_cast<uint32_t>(kApplicationId)));
  }
  const auto version = static_cast<int32_t>(BigEndian32(header, 60));
  return version > kSchemaVersion ? Newer(path, version) : Status();
}

Status CreateCatalogFile(const std::string& path) {
  const std::string temporary = path + ".new";
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) {
    if (unlink((temporary + suffix).c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(temporary, "remove what a crash left");
    }
  }
  ATTNDB_RETURN_IF_ERROR(FillNewCatalog(temporary));
  ATTNDB_RETURN_IF_ERROR(SyncPath(temporary));
  if (rename(temporary.c_str(), path.c_str()) != 0) return ErrnoStatus(path, "rename");
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return SyncPath(folder.empty() ? "." : folder.string());
}

void CloseToOthers(const std::string& path) {
  for (const char* const suffix : {"", "-wal", "-shm"}) {
    const std::string name = path + suffix;
    struct stat info {};
    if (stat(name.c_str(), &info) != 0 || (info.st_mode & (S_IRWXG | S_IRWXO)) == 0) continue;
    (void)chmod(name.c_str(), kOwnerOnly);
  }
}

Result<int64_t> CheckSchema(SqliteDatabase* database) {
  ATTNDB_ASSIGN_OR_RETURN(const int64_t application_id,
                          PragmaInt(database, "PRAGMA application_id"));
  ATTNDB_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(database));
  if (version > kSchemaVersion) return Newer(database->path(), version);
  if (application_id != kApplicationId || version < 1) {
    return Status::Corruption(
        database->path() + ": application id " + std::to_string(application_id) + " version " +
        std::to_string(version) + ", expected " + std::to_string(kApplicationId) +
        " version 1 to " + std::to_string(kSchemaVersion));
  }
  const auto differs = [&](std::string_view expected, std::string_view found) {
    std::string message = database->path() + ": schema: expected \"";
    message.append(expected).append("\", found \"").append(found).append("\"");
    return Status::Corruption(std::move(message));
  };
  Query query = database->Select(
      "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name <> 'sqlite_sequence' "
      "ORDER BY rowid");
  for (const std::string_view expected : SchemaOf(version)) {
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    const std::string_view sql = found ? query.Text(0) : std::string_view();
    if (sql != expected) return differs(expected, sql);
  }
  ATTNDB_ASSIGN_OR_RETURN(const bool more, query.Step());
  if (more) return differs("", query.Text(0));
  return version;
}

Result<int64_t> SchemaVersion(SqliteDatabase* database) {
  return PragmaInt(database, "PRAGMA user_version");
}

Status UpgradeSchema(SqliteDatabase* database) {
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction,
                          Transaction::Begin(database, Transaction::Kind::kWrite));
  // Looked at again: another process may have done it meanwhile.
  ATTNDB_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(database));
  for (const char* statement : std::span(kSchema).subspan(SchemaOf(version).size())) {
    ATTNDB_RETURN_IF_ERROR(database->Execute(statement));
  }
  if (version < kFirstVersionWithCounters) ATTNDB_RETURN_IF_ERROR(CountAfresh(database));
  if (version < kFirstVersionWithNumbers) ATTNDB_RETURN_IF_ERROR(NumberAllById(database));
  ATTNDB_RETURN_IF_ERROR(SetVersion(database));
  return transaction.Commit();
}

}  // namespace attndb::store
