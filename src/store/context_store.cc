#include "store/context_store.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "storage/vfs/store_files.h"
#include "store/non_finite.h"
#include "store/object_path.h"

namespace attndb::store {
namespace {

constexpr std::string_view kLockName = "LOCK";

bool HasSegments(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    const auto parsed = storage::ParseFileName(name);
    return parsed.has_value() && !parsed->temporary;
  });
}

std::string ParentOf(const std::string& path) {
  std::filesystem::path folder(path);
  if (!folder.has_filename()) folder = folder.parent_path();  // It ends with a slash.
  const std::filesystem::path parent = folder.parent_path();
  return parent.empty() ? "." : parent.string();
}

// Makes the store's folders; true if there is no catalog yet. A catalog is never made beside
// segments: they would all be orphans.
Result<bool> PrepareFolders(storage::FileSystem* fs, const std::string& path,
                            const DBOptions& options) {
  const std::string catalog = storage::JoinPath(path, std::string(kCatalogName));
  const std::string segments = storage::JoinPath(path, std::string(kSegmentsName));
  const Result<uint64_t> found = fs->FileSize(catalog);
  if (found.ok()) return false;
  // Only what is surely not there may be made: a disk that fails must not cost the catalog.
  if (found.status().code() != StatusCode::kNotFound) return found.status();
  if (options.read_only || !options.create_if_missing) {
    return Status::NotFound("there is no store at '" + path + "'");
  }
  ATTNDB_RETURN_IF_ERROR(fs->CreateDir(path));
  ATTNDB_RETURN_IF_ERROR(fs->CreateDir(segments));
  ATTNDB_RETURN_IF_ERROR(fs->SyncDir(path));
  ATTNDB_RETURN_IF_ERROR(fs->SyncDir(ParentOf(path)));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs->List(segments));
  if (HasSegments(names)) {
    return Status::Corruption("'" + path + "' holds segments but no " + std::string(kCatalogName) +
                              "; put the catalog back, or open another folder");
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<ContextStore>> ContextStore::Open(const std::string& path,
                                                         const DBOptions& options,
                                                         const Given& given) {
  ATTNDB_ASSIGN_OR_RETURN(const bool create, PrepareFolders(given.file_system, path, options));
  std::unique_ptr<storage::FileLock> lock;
  if (!options.read_only) {
    ATTNDB_ASSIGN_OR_RETURN(
        lock, given.file_system->Lock(storage::JoinPath(path, std::string(kLockName))));
  }
  CatalogOptions catalog_options;
  catalog_options.path = storage::JoinPath(path, std::string(kCatalogName));
  catalog_options.read_only = options.read_only;
  catalog_options.create_if_missing = create;
  catalog_options.clock = options.clock;
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<Catalog> catalog, Catalog::Open(catalog_options));
  auto store = std::make_unique<ContextStore>(Key(), path, options, given, std::move(lock),
                                              std::move(catalog));
  if (!options.read_only) {
    ATTNDB_RETURN_IF_ERROR(store->ForgetFormerKinds());
    ATTNDB_RETURN_IF_ERROR(store->RemoveOrphans());
    ATTNDB_RETURN_IF_ERROR(store->ScheduleMissing(TenantId::kNone));
    store->reserve_.Take();
  }
  return store;
}

ContextStore::ContextStore(Key, std::string path, DBOptions options, const Given& given,
                           std::unique_ptr<storage::FileLock> lock,
                           std::unique_ptr<Catalog> catalog)
    : path_(std::move(path)),
      segments_dir_(storage::JoinPath(path_, std::string(kSegmentsName))),
      options_(std::move(options)),
      file_system_(given.file_system),
      kinds_(*given.kinds),
      merged_(given.merged),
      lock_(std::move(lock)),
      catalog_(std::move(catalog)),
      damage_reports_(catalog_.get()),
      registry_(file_system_, segments_dir_, catalog_.get(), given.budget),
      reserve_(file_system_, storage::JoinPath(path_, std::string(kReserveName))),
      object_files_(file_system_, segments_dir_, catalog_->store_uuid()),
      objects_(&kinds_, given.budget, &object_files_,
               [this](const storage::ObjectName& name, const derived::Kind& kind,
                      const Status& status) { builder_.ReportLoss(name, kind, status); }),
      builder_({&kinds_, &objects_, given.budget, &object_files_, this, &background_},
               {.writes = writes_objects(),
                .also = given.also,
                .looks_again = options_.read_only,
                .grows = options_.grow_graphs}),
      background_({derived::Lanes::Priority::kLow,     // Sessions wait for less to read.
                   derived::Lanes::Priority::kLowest,  // What takes long.
                   derived::Lanes::Priority::kNormal,  // Short; who starves measures nothing.
                   derived::Lanes::Priority::kLow},    // Merges.
                  options_.background_threads) {}

ContextStore::~ContextStore() {
  writers_.Finish();
  background_.Stop();
  damage_reports_.Quarantine();
}

Status ContextStore::RemoveOrphans() {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<storage::ObjectName> objects,
                          catalog_->companions()->KnownObjects());
  const std::set<storage::ObjectName> known(objects.begin(), objects.end());
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<std::string> orphans,
      storage::ListOrphans(file_system_, segments_dir_,
                           [&](const storage::ObjectName& name) { return known.contains(name); }));
  for (const std::string& name : orphans) {
    ATTNDB_RETURN_IF_ERROR(file_system_->Remove(storage::JoinPath(segments_dir_, name)));
  }
  return Status::Ok();
}

Status ContextStore::CheckWritable() const {
  if (!options_.read_only) return Status::Ok();
  return Status::ReadOnly("store '" + path_ + "' was opened for reading only");
}

// --- Who reads what ---

void ContextStore::EndUse(ContextId context) {
  catalog_->contexts()->Touch(context);  // Used until now: what its TTL counts from.
  MutexLock lock(&use_mutex_);
  const auto found = in_use_.find(context);
  if (--found->second == 0) in_use_.erase(found);
}

std::shared_ptr<const void> ContextStore::Hold(ContextId context) {
  if (context == ContextId::kNone) return nullptr;
  {
    MutexLock lock(&use_mutex_);
    ++in_use_[context];
  }
  return std::shared_ptr<const void>(this, [this, context](const void*) { EndUse(context); });
}

std::vector<ContextId> ContextStore::ContextsInUse() const {
  MutexLock lock(&use_mutex_);
  std::vector<ContextId> contexts;
  for (const auto& [context, num_sessions] : in_use_) contexts.push_back(context);
  return contexts;
}

void ContextStore::NoteDamage(const storage::Segment& segment, const Status& status) {
  if (status.code() != StatusCode::kCorruption || options_.read_only) return;
  damage_reports_.Note(static_cast<SegmentId>(segment.id()), status.message());
  background_.Add(kShortLane, {.run = [this](derived::Lanes::Control*) {
                    damage_reports_.Quarantine();
                    return Status::Ok();
                  }});
}

// --- Admin ---

ContextInfo ContextStore::InfoOf(const ContextDetail& detail, const ModelSpec& spec) const {
  const ContextRecord& record = detail.context;
  ContextInfo info;
  info.id = record.id;
  info.name = record.name;
  info.num_tokens = record.num_tokens;
  info.kv_bytes = record.kv_bytes;
  info.file_bytes = detail.file_bytes;
  info.own_bytes = detail.own_bytes;
  info.retained_bytes = detail.retained_bytes;
  info.query_sample_bytes = detail.query_bytes;
  info.created_us = record.created_us;
  info.last_access_us = record.last_access_us;
  info.ttl_seconds = record.ttl_seconds;
  info.pinned = record.pinned;
  info.damaged = record.damaged;
  info.first_position = record.first_position;
  for (const ChainSegment& link : detail.chain) {
    SegmentInfo& segment = info.segments.emplace_back();
    segment.segment_id = link.segment.id;
    segment.num_tokens_used = link.num_tokens_used;
    segment.num_tokens = link.segment.num_tokens;
    segment.file_bytes = link.segment.file_bytes;
    segment.num_contexts = link.num_contexts;
    segment.damage = link.segment.damage;
    for (const CompanionRecord& companion : link.segment.companions) {
      segment.companions.push_back({companion.kind, companion.generation, companion.file_bytes});
      info.companion_bytes += companion.file_bytes;
      info.derived_bytes[companion.kind] += companion.file_bytes;
    }
    if (builder_.IsPending(FactsOf(link.segment))) ++info.num_pending_companions;
  }
  info.kv_dtype = spec.kv_dtype;
  info.fingerprint = spec.fingerprint;
  info.num_layers = spec.num_layers();
  std::set<std::pair<uint32_t, uint32_t>> heads;
  for (const ChainSegment& link : detail.chain) {
    DecodeNonFinite(link.segment.non_finite, spec, &heads);
  }
  for (const auto& [layer, head] : heads) {
    info.non_finite_heads.push_back("layer " + std::to_string(layer) + " head " +
                                    std::to_string(head));
  }
  return info;
}

Result<ContextInfo> ContextStore::Describe(const std::string& tenant,
                                           std::string_view context) const {
  damage_reports_.Quarantine();
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record, catalog_->contexts()->Find(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const ContextDetail detail,
                          catalog_->contexts()->Describe(record.tenant, record.id));
  ATTNDB_ASSIGN_OR_RETURN(const ModelSpec spec, catalog_->owners()->GetModel(record.model));
  return InfoOf(detail, spec);
}

Result<std::vector<ContextInfo>> ContextStore::List(const std::string& tenant) const {
  constexpr size_t kPage = 500;  // Contexts that are described while others wait for the catalog.
  damage_reports_.Quarantine();
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, catalog_->owners()->FindTenant(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextRecord> records,
                          catalog_->contexts()->List(owner.id));
  std::map<ModelId, ModelSpec> specs;
  std::vector<ContextInfo> infos;
  infos.reserve(records.size());
  for (std::span rest(records); !rest.empty(); rest = rest.subspan(std::min(kPage, rest.size()))) {
    ATTNDB_ASSIGN_OR_RETURN(
        const std::vector<ContextDetail> page,
        catalog_->contexts()->DescribeAll(rest.first(std::min(kPage, rest.size()))));
    for (const ContextDetail& detail : page) {
      const ModelId model = detail.context.model;
      auto spec = specs.find(model);
      if (spec == specs.end()) {
        ATTNDB_ASSIGN_OR_RETURN(ModelSpec found, catalog_->owners()->GetModel(model));
        spec = specs.emplace(model, std::move(found)).first;
      }
      infos.push_back(InfoOf(detail, spec->second));
      infos.back().segments.clear();
    }
  }
  return infos;
}

Status ContextStore::Pin(const std::string& tenant, std::string_view context, bool pinned) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record, catalog_->contexts()->Find(tenant, context));
  return catalog_->contexts()->Pin(record.tenant, record.id, pinned);
}

Status ContextStore::SetTtl(const std::string& tenant, std::string_view context,
                            std::optional<std::chrono::seconds> ttl) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record, catalog_->contexts()->Find(tenant, context));
  return catalog_->contexts()->SetTtl(record.tenant, record.id, ttl);
}

Status ContextStore::SetQuota(const std::string& tenant, uint64_t bytes) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, catalog_->owners()->EnsureTenant(tenant));
  return catalog_->owners()->SetQuota(owner.id, bytes);
}

Status ContextStore::DeclareEqual(std::string_view fingerprint_a, std::string_view fingerprint_b) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  return catalog_->owners()->DeclareEqual(fingerprint_a, fingerprint_b);
}

Result<DBStats> ContextStore::Stats(const std::string& tenant) const {
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, catalog_->owners()->FindTenant(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const CatalogStats catalog, catalog_->Stats(owner.id));
  DBStats stats;
  stats.path = path_;
  stats.read_only = options_.read_only;
  stats.format_version = Catalog::format_version();
  stats.num_contexts = catalog.num_contexts;
  stats.num_segments = catalog.num_segments;
  stats.num_tokens = catalog.num_tokens;
  stats.file_bytes = catalog.file_bytes;
  stats.num_companions = catalog.num_companions;
  stats.companion_bytes = catalog.companion_bytes;
  ATTNDB_ASSIGN_OR_RETURN(stats.num_pending_companions, CountPending(owner.id));
  stats.num_companions_built = builder_.num_written();
  stats.background_seconds = static_cast<double>(background_.busy_ns()) * 1e-9;
  stats.quota_bytes = owner.quota_bytes;
  stats.num_damaged_segments = catalog.num_damaged_segments;
  stats.num_stores = num_stores_.load(std::memory_order_relaxed);
  stats.num_evictions = num_evictions_.load(std::memory_order_relaxed);
  stats.bytes_written = bytes_written_.load(std::memory_order_relaxed);
  stats.bytes_merged = bytes_merged_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace attndb::store
