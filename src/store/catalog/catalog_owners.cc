#include "store/catalog/catalog_owners.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "attndb/fingerprint.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/model_identity.h"
#include "store/catalog/model_sources.h"
#include "store/catalog/names.h"
#include "store/catalog/sqlite.h"
#include "store/catalog/tenant_numbers.h"

namespace attndb::store {
namespace {

constexpr size_t kMaxFingerprintBytes = 256;

}  // namespace

Result<Tenant> CatalogOwners::FindTenant(std::string_view name) const {
  ATTNDB_RETURN_IF_ERROR(CheckTenantName(name));
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(std::optional<TenantRow> row, FindTenantRow(core_->database(), name));
  return row.has_value() ? std::move(row->tenant) : Tenant{TenantId::kNone, std::string(name), 0};
}

Result<Tenant> CatalogOwners::EnsureTenant(std::string_view name) {
  ATTNDB_ASSIGN_OR_RETURN(Tenant found, FindTenant(name));
  if (found.id != TenantId::kNone) return found;
  Sha256Digest secret;
  ATTNDB_RETURN_IF_ERROR(RandomBytes(secret));
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run(
      "INSERT OR IGNORE INTO tenants(name, secret, quota_bytes) VALUES(?, ?, 0)", name,
      std::span<const std::byte>(secret)));
  ATTNDB_ASSIGN_OR_RETURN(std::optional<TenantRow> row, FindTenantRow(core_->database(), name));
  ATTNDB_RETURN_IF_ERROR(BeginNumbers(core_->database(), row->tenant.id));
  ATTNDB_RETURN_IF_ERROR(core_->Commit(&transaction));
  return row->tenant;
}

Result<Tenant> CatalogOwners::GetTenant(TenantId tenant) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(TenantRow row, LoadTenantRow(core_->database(), tenant));
  return std::move(row.tenant);
}

Status CatalogOwners::SetQuota(TenantId tenant, uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Status::InvalidArgument("quota of " + std::to_string(bytes) +
                                   " bytes: expected less than 2^63");
  }
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_RETURN_IF_ERROR(
      core_->database()->Run("UPDATE tenants SET quota_bytes = ? WHERE id = ?", bytes, tenant));
  return core_->Commit(&transaction);
}

Result<std::optional<ModelId>> CatalogOwners::FindModel(const ModelSpec& spec) const {
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  const EncodedModel encoded = EncodeModel(spec);
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<ModelRow> row,
                          FindModelRow(core_->database(), encoded.identity));
  if (!row.has_value()) return std::optional<ModelId>();
  return std::optional(row->id);
}

Result<ModelId> CatalogOwners::EnsureModel(const ModelSpec& spec) {
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<ModelId> found, FindModel(spec));
  if (found.has_value()) return *found;
  const EncodedModel encoded = EncodeModel(spec);
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run(
      "INSERT OR IGNORE INTO models(identity, layout, fingerprint, spec) VALUES(?, ?, ?, ?)",
      std::span<const std::byte>(encoded.identity), std::span<const std::byte>(encoded.layout),
      std::as_bytes(std::span(spec.fingerprint)), std::span<const std::byte>(encoded.bytes)));
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<ModelRow> row,
                          FindModelRow(core_->database(), encoded.identity));
  ATTNDB_RETURN_IF_ERROR(core_->Commit(&transaction));
  return row->id;
}

Result<ModelSpec> CatalogOwners::GetModel(ModelId model) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  Query query = core_->database()->Select("SELECT spec FROM models WHERE id = ?", model);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) {
    return Status::NotFound("no model " + std::to_string(static_cast<int64_t>(model)));
  }
  Result<ModelSpec> spec = DecodeModel(query.Blob(0));
  if (!spec.ok()) return spec.status().WithContext(core_->options().path);
  return spec;
}

Result<ModelSource> CatalogOwners::SourceOf(TenantId tenant, ModelId model) const {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  return SourceOfModel(core_->database(), tenant, model);
}

Result<bool> CatalogOwners::SameModel(TenantId tenant, ModelId model, const ModelSpec& spec) const {
  const EncodedModel encoded = EncodeModel(spec);
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(const Transaction transaction, core_->BeginRead());
  ATTNDB_ASSIGN_OR_RETURN(const TenantRow owner, LoadTenantRow(core_->database(), tenant));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ModelRow> equals,
                          EqualModels(core_->database(), owner, encoded.layout, spec.fingerprint));
  return std::ranges::any_of(equals, [&](const ModelRow& row) { return row.id == model; });
}

Status CatalogOwners::DeclareEqual(TenantId tenant, std::string_view fingerprint_a,
                                   std::string_view fingerprint_b) {
  for (const std::string_view fingerprint : {fingerprint_a, fingerprint_b}) {
    if (fingerprint.empty() || fingerprint.size() > kMaxFingerprintBytes) {
      return Status::InvalidArgument("fingerprint of " + std::to_string(fingerprint.size()) +
                                     " bytes: expected 1 to " +
                                     std::to_string(kMaxFingerprintBytes));
    }
  }
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  ATTNDB_ASSIGN_OR_RETURN(const TenantRow owner, LoadTenantRow(core_->database(), tenant));
  const Sha256Digest a = EqualityKey(owner, fingerprint_a);
  const Sha256Digest b = EqualityKey(owner, fingerprint_b);
  ATTNDB_RETURN_IF_ERROR(core_->database()->Run(
      "INSERT OR IGNORE INTO equal_fingerprints(a, b) VALUES(?1, ?2), (?2, ?1)",
      std::span<const std::byte>(a), std::span<const std::byte>(b)));
  return core_->Commit(&transaction);
}

Status CatalogOwners::RevokeEqual(TenantId tenant, std::string_view fingerprint_a,
                                  std::string_view fingerprint_b) {
  MutexLock lock(core_->mutex());
  ATTNDB_ASSIGN_OR_RETURN(Transaction transaction, core_->BeginWrite());
  SqliteDatabase* const database = core_->database();
  ATTNDB_ASSIGN_OR_RETURN(const TenantRow owner, LoadTenantRow(database, tenant));
  const Sha256Digest a = EqualityKey(owner, fingerprint_a);
  const Sha256Digest b = EqualityKey(owner, fingerprint_b);
  bool is_declared = false;
  {
    Query query = database->Select("SELECT 1 FROM equal_fingerprints WHERE a = ?1 AND b = ?2",
                                   std::span<const std::byte>(a), std::span<const std::byte>(b));
    ATTNDB_ASSIGN_OR_RETURN(is_declared, query.Step());
  }
  if (!is_declared) {
    return Status::NotFound("fingerprints " + FingerprintText(fingerprint_a) + " and " +
                            FingerprintText(fingerprint_b) + " were not declared equal");
  }
  ATTNDB_RETURN_IF_ERROR(database->Run(
      "DELETE FROM equal_fingerprints WHERE (a = ?1 AND b = ?2) OR (a = ?2 AND b = ?1)",
      std::span<const std::byte>(a), std::span<const std::byte>(b)));
  return core_->Commit(&transaction);
}

}  // namespace attndb::store
