// Owners in the catalog: tenants with their quotas, the models of contexts, and declarations that
// models are equal.
//
// Errors:  those of every call of the catalog (catalog.h); further codes are at the functions.
// Threads: thread-safe.
#ifndef ATTNDB_STORE_CATALOG_CATALOG_OWNERS_H_
#define ATTNDB_STORE_CATALOG_CATALOG_OWNERS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "attndb/result.h"
#include "attndb/types.h"
#include "store/catalog/catalog_core.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

class CatalogOwners {
 public:
  // `core` must outlive it.
  explicit CatalogOwners(CatalogCore* core) : core_(core) {}

  // An unknown tenant has the id kNone and no contexts.
  Result<Tenant> FindTenant(std::string_view name) const;
  // Finds the tenant, or adds it. Errors: kInvalidArgument (name: 1 to 64 of [A-Za-z0-9._-]).
  Result<Tenant> EnsureTenant(std::string_view name);
  // Errors: kNotFound.
  Result<Tenant> GetTenant(TenantId tenant) const;
  Status SetQuota(TenantId tenant, uint64_t bytes);

  Result<std::optional<ModelId>> FindModel(const ModelSpec& spec) const;
  // Finds the model, or adds it. Errors: kInvalidArgument (ModelSpec::Validate).
  Result<ModelId> EnsureModel(const ModelSpec& spec);
  // The spec as it is stored: defaults resolved, RoPE layout as keys are stored.
  Result<ModelSpec> GetModel(ModelId model) const;
  // The name and the files that the tenant knows the model by.
  Result<ModelSource> SourceOf(TenantId tenant, ModelId model) const;
  // Whether KV of `model` may be used for `spec`: they are equal, or the tenant declared them
  // equal.
  Result<bool> SameModel(TenantId tenant, ModelId model, const ModelSpec& spec) const;
  // Declares models with these fingerprints to be equal. Transitive, for this tenant.
  // Errors: kNotFound (tenant); kInvalidArgument (a fingerprint is empty or longer than 256 bytes).
  Status DeclareEqual(TenantId tenant, std::string_view fingerprint_a,
                      std::string_view fingerprint_b);
  // Takes back the declaration for these two. They may still be equal through other models.
  // Errors: kNotFound (tenant; it was not declared).
  Status RevokeEqual(TenantId tenant, std::string_view fingerprint_a,
                     std::string_view fingerprint_b);

 private:
  CatalogCore* const core_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CATALOG_OWNERS_H_
