#include "store/catalog/catalog.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "common/clock.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/counters.h"
#include "store/catalog/lacking_companions.h"
#include "store/catalog/model_identity.h"
#include "store/catalog/names.h"
#include "store/catalog/schema.h"
#include "store/catalog/sqlite.h"
#include "store/catalog/wal_check.h"

namespace attndb::store {
namespace {

constexpr size_t kMaxTouches = 4096;
constexpr size_t kMaxFingerprintBytes = 256;

// Size, time and inode of a file, as text; "0" bytes and a missing file look alike.
std::string FileStamp(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "none";
  return std::to_string(info.st_size) + "." + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec) + "." + std::to_string(info.st_ino);
}

bool IsEmptyOrMissing(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) != 0 || info.st_size == 0;
}

}  // namespace

Catalog::Catalog(const CatalogOptions& options) : options_(options) {}

Catalog::~Catalog() {
  // Access times are a hint: a store that can't be written any more closes all the same.
  if (!options_.read_only) (void)FlushTouches().ok();
}

uint32_t Catalog::format_version() { return static_cast<uint32_t>(kSchemaVersion); }

Result<std::unique_ptr<Catalog>> Catalog::Open(const CatalogOptions& options) {
  Status found = CheckCatalogFile(options.path);
  const bool create = options.create_if_missing && !options.read_only;
  if (found.code() == StatusCode::kNotFound && create) {
    ATTNDB_RETURN_IF_ERROR(CreateCatalogFile(options.path));
    found = CheckCatalogFile(options.path);
  }
  ATTNDB_RETURN_IF_ERROR(found);
  ATTNDB_RETURN_IF_ERROR(CheckWriteAheadLog(options.path + "-wal"));
  auto catalog = std::make_unique<Catalog>(options);
  MutexLock lock(&catalog->mutex_);
  ATTNDB_RETURN_IF_ERROR(catalog->Connect());
  ATTNDB_RETURN_IF_ERROR(catalog->LoadMeta());
  if (!options.read_only) ATTNDB_RETURN_IF_ERROR(catalog->ForgetUnreferencedSegments());
  lock.Unlock();
  return catalog;
}

Status Catalog::Connect() const {
  using Mode = SqliteDatabase::Mode;
  if (!options_.read_only) return ConnectAs(Mode::kReadWrite);
  const Status status = ConnectAs(Mode::kReadOnly);
  if (status.code() != StatusCode::kReadOnly && status.code() != StatusCode::kIoError &&
      status.code() != StatusCode::kResourceExhausted) {  // A disk with nothing free.
    immutable_stamp_.clear();
    return status;
  }
  // SQLite can't make its lock file here. Without a log that holds commits the file alone is the
  // whole catalog, as long as nobody changes it: BeginRead looks.
  if (!IsEmptyOrMissing(options_.path + "-wal")) {
    return Status::ReadOnly(status.message() +
                            "; its log holds commits that only a process that may write the folder "
                            "can recover");
  }
  immutable_stamp_ = FileStamp(options_.path);
  return ConnectAs(Mode::kImmutable);
}

Status Catalog::ConnectAs(SqliteDatabase::Mode mode) const {
  ATTNDB_ASSIGN_OR_RETURN(database_, SqliteDatabase::Open(options_.path, mode));
  ATTNDB_ASSIGN_OR_RETURN(const int64_t version, CheckSchema(database_.get()));
  if (mode != SqliteDatabase::Mode::kReadWrite) {
    return version < kFirstVersionWithCounters ? ViewAsCounters(database_.get()) : Status::Ok();
  }
  if (version < kSchemaVersion) ATTNDB_RETURN_IF_ERROR(UpgradeSchema(database_.get()));
  ATTNDB_RETURN_IF_ERROR(KeepCounters(database_.get()));
  return WatchCompanions(database_.get());
}

Status Catalog::LoadMeta() {
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  Query query = database_->Select("SELECT uuid FROM meta");
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  const std::span<const std::byte> uuid = query.Blob(0);
  if (!found || uuid.size() != store_uuid_.size()) {
    return Status::Corruption(options_.path + ": meta: no store uuid of 16 bytes");
  }
  std::ranges::copy(uuid, store_uuid_.begin());
  return {};
}

// What the process before kept for its sessions, which are gone.
Status Catalog::ForgetUnreferencedSegments() {
  constexpr const char* kUnreferenced =
      "SELECT EXISTS(SELECT 1 FROM segments WHERE id NOT IN (SELECT segment FROM chain))";
  {
    Query query = database_->Select(kUnreferenced);
    ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found || query.Int(0) == 0) return {};  // The usual case costs no sync.
  }
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_RETURN_IF_ERROR(
      database_->Run("DELETE FROM segments WHERE id NOT IN (SELECT segment FROM chain)"));
  return Commit(&transaction);
}

Result<Transaction> Catalog::BeginRead() const {
  if (!immutable_stamp_.empty() && immutable_stamp_ != FileStamp(options_.path)) {
    ATTNDB_RETURN_IF_ERROR(Connect());
  }
  return Transaction::Begin(database_.get(), Transaction::Kind::kRead);
}

Result<Transaction> Catalog::BeginWrite() {
  if (options_.read_only) return Status::ReadOnly(options_.path + ": opened read-only");
  if (log_is_copied_) {
    log_is_copied_ = database_->Checkpoint() == SqliteDatabase::LogState::kCopied;
    if (log_is_copied_) return Status::IoError(options_.path + "-wal: can't be cut off");
  }
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction,
                          Transaction::Begin(database_.get(), Transaction::Kind::kWrite));
  for (const auto& [context, time_us] : touched_us_) {
    ATTNDB_RETURN_IF_ERROR(
        database_->Run("UPDATE contexts SET last_access_us = max(last_access_us, ?) WHERE id = ?",
                       time_us, context));
  }
  return transaction;
}

Status Catalog::Commit(Transaction* transaction) {
  auto log = SqliteDatabase::LogState::kHolds;
  ATTNDB_RETURN_IF_ERROR(transaction->Commit(&log));
  touched_us_.clear();
  log_is_copied_ = log == SqliteDatabase::LogState::kCopied;
  if (log == SqliteDatabase::LogState::kHolds) SealLog();
  return {};
}

// A commit that stays in the log is safe from silent loss only if others follow it (wal_check.h).
// Two, because damage may hit the very mark that makes a frame a commit. Best effort: it is
// durable.
void Catalog::SealLog() {
  for (int i = 0; i < 2; ++i) {
    Result<Transaction> seal = Transaction::Begin(database_.get(), Transaction::Kind::kWrite);
    if (!seal.ok()) return;
    if (!database_->Run("UPDATE meta SET next_segment = next_segment + 1").ok()) return;
    if (!seal->Commit().ok()) return;
  }
}

int64_t Catalog::Now() const { return options_.clock ? options_.clock() : SystemNowMicros(); }

Result<std::optional<Tenant>> Catalog::FindTenant(std::string_view name) const {
  ATTNDB_RETURN_IF_ERROR(CheckTenantName(name));
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(std::optional<TenantRow> row, FindTenantRow(database_.get(), name));
  if (!row.has_value()) return std::optional<Tenant>();
  return std::optional(std::move(row->tenant));
}

Result<Tenant> Catalog::EnsureTenant(std::string_view name) {
  ATTNDB_ASSIGN_OR_RETURN(std::optional<Tenant> found, FindTenant(name));
  if (found.has_value()) return *std::move(found);
  Sha256Digest secret;
  ATTNDB_RETURN_IF_ERROR(RandomBytes(secret));
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_RETURN_IF_ERROR(
      database_->Run("INSERT OR IGNORE INTO tenants(name, secret, quota_bytes) VALUES(?, ?, 0)",
                     name, std::span<const std::byte>(secret)));
  ATTNDB_ASSIGN_OR_RETURN(std::optional<TenantRow> row, FindTenantRow(database_.get(), name));
  ATTNDB_RETURN_IF_ERROR(Commit(&transaction));
  return row->tenant;
}

Result<Tenant> Catalog::GetTenant(TenantId tenant) const {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(TenantRow row, LoadTenantRow(database_.get(), tenant));
  return std::move(row.tenant);
}

Status Catalog::SetQuota(TenantId tenant, uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Status::InvalidArgument("quota of " + std::to_string(bytes) +
                                   " bytes: expected less than 2^63");
  }
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_RETURN_IF_ERROR(
      database_->Run("UPDATE tenants SET quota_bytes = ? WHERE id = ?", bytes, tenant));
  return Commit(&transaction);
}

Result<std::optional<ModelId>> Catalog::FindModel(const ModelSpec& spec) const {
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  const EncodedModel encoded = EncodeModel(spec);
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<ModelRow> row,
                          FindModelRow(database_.get(), encoded.identity));
  if (!row.has_value()) return std::optional<ModelId>();
  return std::optional(row->id);
}

Result<ModelId> Catalog::EnsureModel(const ModelSpec& spec) {
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<ModelId> found, FindModel(spec));
  if (found.has_value()) return *found;
  const EncodedModel encoded = EncodeModel(spec);
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_RETURN_IF_ERROR(database_->Run(
      "INSERT OR IGNORE INTO models(identity, layout, fingerprint, spec) VALUES(?, ?, ?, ?)",
      std::span<const std::byte>(encoded.identity), std::span<const std::byte>(encoded.layout),
      std::as_bytes(std::span(spec.fingerprint)), std::span<const std::byte>(encoded.bytes)));
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<ModelRow> row,
                          FindModelRow(database_.get(), encoded.identity));
  ATTNDB_RETURN_IF_ERROR(Commit(&transaction));
  return row->id;
}

Result<ModelSpec> Catalog::GetModel(ModelId model) const {
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  Query query = database_->Select("SELECT spec FROM models WHERE id = ?", model);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) {
    return Status::NotFound("no model " + std::to_string(static_cast<int64_t>(model)));
  }
  Result<ModelSpec> spec = DecodeModel(query.Blob(0));
  if (!spec.ok()) return spec.status().WithContext(options_.path);
  return spec;
}

Result<bool> Catalog::SameModel(ModelId model, const ModelSpec& spec) const {
  const EncodedModel encoded = EncodeModel(spec);
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ModelRow> equals,
                          EqualModels(database_.get(), encoded.layout, spec.fingerprint));
  return std::ranges::any_of(equals, [&](const ModelRow& row) { return row.id == model; });
}

Status Catalog::DeclareEqual(std::string_view fingerprint_a, std::string_view fingerprint_b) {
  for (const std::string_view fingerprint : {fingerprint_a, fingerprint_b}) {
    if (fingerprint.empty() || fingerprint.size() > kMaxFingerprintBytes) {
      return Status::InvalidArgument("fingerprint of " + std::to_string(fingerprint.size()) +
                                     " bytes: expected 1 to " +
                                     std::to_string(kMaxFingerprintBytes));
    }
  }
  MutexLock lock(&mutex_);
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  ATTNDB_RETURN_IF_ERROR(database_->Run(
      "INSERT OR IGNORE INTO equal_fingerprints(a, b) VALUES(?1, ?2), (?2, ?1)",
      std::as_bytes(std::span(fingerprint_a)), std::as_bytes(std::span(fingerprint_b))));
  return Commit(&transaction);
}

void Catalog::Touch(ContextId context) {
  const int64_t now = Now();
  MutexLock lock(&mutex_);
  int64_t& touched_us = touched_us_[static_cast<int64_t>(context)];
  touched_us = std::max(touched_us, now);
  if (touched_us_.size() < kMaxTouches) return;
  lock.Unlock();
  // A reader keeps the newest few thousand to itself; a failed write is tried again with the next.
  if (options_.read_only || !FlushTouches().ok()) {
    MutexLock clear_lock(&mutex_);
    touched_us_.clear();
  }
}

bool Catalog::EmptyLog() {
  MutexLock lock(&mutex_);
  return database_ != nullptr && database_->Checkpoint() == SqliteDatabase::LogState::kEmpty;
}

Status Catalog::FlushTouches() {
  MutexLock lock(&mutex_);
  if (touched_us_.empty() || database_ == nullptr) return {};
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, BeginWrite());
  return Commit(&transaction);
}

int64_t Catalog::LastAccess(ContextId context, int64_t stored_us) const {
  const auto it = touched_us_.find(static_cast<int64_t>(context));
  return it == touched_us_.end() ? stored_us : std::max(stored_us, it->second);
}

}  // namespace attndb::store
