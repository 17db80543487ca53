#include "db/database.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "db/custom_types.h"
#include "db/index_use.h"
#include "db/measure_machine.h"
#include "db/non_finite.h"
#include "planner/builtin_plans.h"
#include "storage/kv/chain_rows.h"
#include "storage/vfs/store_files.h"

namespace attndb::internal {
namespace {

constexpr std::string_view kLockName = "LOCK";
constexpr std::string_view kCatalogName = "catalog.db";
constexpr std::string_view kSegmentsName = "segments";

// Three quarters of what the machine can give without swapping.
uint64_t DefaultHostMemory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string unit;
  while (meminfo >> key >> kib >> unit) {
    if (key == "MemAvailable:") return kib * 1024 / 4 * 3;
  }
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE)) / 2;
}

bool HasSegments(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    const auto parsed = storage::ParseFileName(name);
    return parsed.has_value() && !parsed->temporary;
  });
}

// Makes the store's folders. A catalog is never made beside segments: they would all be orphans.
std::string ParentOf(const std::string& path) {
  std::filesystem::path folder(path);
  if (!folder.has_filename()) folder = folder.parent_path();  // It ends with a slash.
  const std::filesystem::path parent = folder.parent_path();
  return parent.empty() ? "." : parent.string();
}

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

Status CheckRoarOptions(const DBOptions& options) {
  const auto check = [](const char* name, uint32_t number, uint32_t most, uint32_t fallback) {
    if (number <= most) return Status::Ok();
    return Status::InvalidArgument(std::string(name) + " is " + std::to_string(number) +
                                   ", expected at most " + std::to_string(most) +
                                   "; 0 = " + std::to_string(fallback));
  };
  ATTNDB_RETURN_IF_ERROR(
      check("roar_keys_per_query", options.roar_keys_per_query, DBOptions::kMaxRoarKeys, 100));
  ATTNDB_RETURN_IF_ERROR(
      check("roar_max_degree", options.roar_max_degree, DBOptions::kMaxRoarDegree, 35));
  return check("roar_search_window", options.roar_search_window, DBOptions::kMaxRoarKeys, 500);
}

Status CheckRanges(const DBOptions& options) {
  if (!(options.query_sample >= 0.0 && options.query_sample <= 16.0)) {
    return Status::InvalidArgument("query_sample is " + std::to_string(options.query_sample) +
                                   ", expected 0 to 16 rows a key");
  }
  const auto check_threads = [](const char* name, uint32_t number) {
    if (number <= DBOptions::kMaxThreads) return Status::Ok();
    return Status::InvalidArgument(std::string(name) + " is " + std::to_string(number) +
                                   ", expected at most " + std::to_string(DBOptions::kMaxThreads) +
                                   "; 0 = all cores");
  };
  ATTNDB_RETURN_IF_ERROR(check_threads("num_threads", options.num_threads));
  ATTNDB_RETURN_IF_ERROR(check_threads("background_threads", options.background_threads));
  if (options.kmeans_iterations > DBOptions::kMaxKmeansIterations) {
    return Status::InvalidArgument(
        "kmeans_iterations is " + std::to_string(options.kmeans_iterations) +
        ", expected at most " + std::to_string(DBOptions::kMaxKmeansIterations) + "; 0 = 8");
  }
  if (options.import_segment_tokens > CompactOptions::kMaxSegmentTokens) {
    return Status::InvalidArgument("import_segment_tokens: expected at most " +
                                   std::to_string(CompactOptions::kMaxSegmentTokens) + ", found " +
                                   std::to_string(options.import_segment_tokens));
  }
  ATTNDB_RETURN_IF_ERROR(CheckRoarOptions(options));
  if (!options.index.empty() && !options.background_builds) {
    return Status::InvalidArgument("index is '" + options.index +
                                   "', which needs background_builds, and these are off");
  }
  return Status::Ok();
}

// What the caller gave no other for.
Status CompletePlanning(const DBOptions& options, Database::Planning* planning) {
  if (planning->registry == nullptr) {
    planner::PlanRegistry plans = planner::BuiltinPlans();
    ATTNDB_RETURN_IF_ERROR(CheckCustomTypes(options.custom_indexes, plans));
    AddCustomPlans(options.custom_indexes, &plans);
    planning->registry = std::make_shared<const planner::PlanRegistry>(std::move(plans));
  }
  if (planning->operators == nullptr) {
    attention::Registry operators;
    AddCustomSearches(options.custom_indexes, &operators);
    planning->operators = std::make_shared<const attention::Registry>(std::move(operators));
  }
  if (planning->make_rows == nullptr) {
    planning->make_rows = [] { return std::make_unique<storage::ChainRows>(); };
  }
  return Status::Ok();
}

derived::Kinds MakeKinds(const DBOptions& options) {
  derived::Kinds kinds =
      derived::BuiltinKinds({.kmeans_iterations = options.kmeans_iterations,
                             .roar_keys_per_query = options.roar_keys_per_query,
                             .roar_max_degree = options.roar_max_degree,
                             .roar_search_window = options.roar_search_window,
                             .max_training_queries = options.max_training_queries});
  AddCustomKinds(options.custom_indexes, &kinds);
  return kinds;
}

}  // namespace

std::string PathInStore(const storage::ObjectName& name) {
  return storage::JoinPath(std::string(kSegmentsName),
                           storage::FileNameOf(name, storage::ObjectFile::kData));
}

ModelSpec Resolve(ModelSpec spec) {
  for (LayerSpec& layer : spec.layers) {
    if (layer.scale == 0.0f) {
      layer.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(layer.head_dim)));
    }
    layer.rope.rope_dims = layer.rope.DimsOf(layer.head_dim);
  }
  return spec;
}

Result<std::shared_ptr<Database>> Database::Open(const std::string& path, const DBOptions& options,
                                                 storage::FileSystem* file_system,
                                                 Planning planning) {
  ATTNDB_RETURN_IF_ERROR(CompletePlanning(options, &planning));
  ATTNDB_RETURN_IF_ERROR(planner::Plan::Parse(options.plan, *planning.registry).status());
  ATTNDB_RETURN_IF_ERROR(CheckRanges(options));
  std::string index_use;
  if (!options.index.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(index_use, IndexUse(options.index, *planning.registry));
  }
  ATTNDB_ASSIGN_OR_RETURN(const bool create, PrepareFolders(file_system, path, options));
  std::unique_ptr<storage::FileLock> lock;
  if (!options.read_only) {
    ATTNDB_ASSIGN_OR_RETURN(lock,
                            file_system->Lock(storage::JoinPath(path, std::string(kLockName))));
  }
  db::CatalogOptions catalog_options;
  catalog_options.path = storage::JoinPath(path, std::string(kCatalogName));
  catalog_options.read_only = options.read_only;
  catalog_options.create_if_missing = create;
  catalog_options.clock = options.clock;
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<db::Catalog> catalog, db::Catalog::Open(catalog_options));
  DBOptions resolved = options;
  if (resolved.host_memory_bytes == 0) resolved.host_memory_bytes = DefaultHostMemory();
  auto database = std::make_shared<Database>(
      Key(), Parts{path, resolved, std::move(index_use), file_system, std::move(planning),
                   std::move(lock), std::move(catalog)});
  if (!options.read_only) {
    ATTNDB_RETURN_IF_ERROR(database->ForgetFormerKinds());
    ATTNDB_RETURN_IF_ERROR(database->RemoveOrphans());
    ATTNDB_RETURN_IF_ERROR(database->ScheduleMissing(db::TenantId::kNone));
  }
  return database;
}

Database::Database(Key, Parts parts)
    : path_(std::move(parts.path)),
      segments_dir_(storage::JoinPath(path_, std::string(kSegmentsName))),
      options_(std::move(parts.options)),
      file_system_(parts.file_system),
      planning_(std::move(parts.planning)),
      lock_(std::move(parts.lock)),
      budget_(options_.host_memory_bytes),
      catalog_(std::move(parts.catalog)),
      damage_reports_(catalog_.get()),
      registry_(file_system_, segments_dir_, catalog_.get(), &budget_),
      kinds_(MakeKinds(options_)),
      object_files_(file_system_, segments_dir_, catalog_->store_uuid()),
      objects_(&kinds_, &budget_, &object_files_,
               [this](const storage::ObjectName& name, const derived::Kind& kind,
                      const Status& status) { builder_.ReportLoss(name, kind, status); }),
      builder_({&kinds_, &objects_, &budget_, &object_files_, this, &background_},
               {.writes = writes_objects(),
                .also = parts.index_use.empty() ? nullptr : &kinds_.ForUse(parts.index_use),
                .looks_again = options_.read_only,
                .grows = options_.grow_graphs}),
      pool_(options_.num_threads),
      hints_(file_system_, path_),
      session_parts_{.plans = planning_.registry.get(),
                     .operators = planning_.operators.get(),
                     .scratch = &scratch_,
                     .budget = &budget_,
                     .make_rows = planning_.make_rows,
                     .kinds = &kinds_,
                     .objects = &objects_,
                     .builder = &builder_,
                     .pool = &pool_,
                     .machine = &machine_},
      session_settings_{.dense_query_tokens = options_.dense_query_tokens,
                        .gpu_memory_bytes = options_.gpu_memory_bytes,
                        .query_sample = options_.query_sample,
                        .learns = options_.measure_machine},
      default_machine_(planning_.machine.value_or(DefaultMachine())),
      background_({derived::Lanes::Priority::kLow,      // Sessions wait for less to read.
                   derived::Lanes::Priority::kLowest,   // What takes long.
                   derived::Lanes::Priority::kNormal},  // Short; who starves measures nothing.
                  options_.background_threads) {
  TakeMachine();
}

Database::~Database() {
  background_.Stop();  // What it learned is kept.
  damage_reports_.Quarantine();
  if (!options_.read_only) hints_.Save();
}

Status Database::RemoveOrphans() {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<storage::ObjectName> objects, catalog_->KnownObjects());
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

Status Database::CheckWritable() const {
  if (!options_.read_only) return Status::Ok();
  return Status::ReadOnly("store '" + path_ + "' was opened for reading only");
}

Result<db::Tenant> Database::TenantOf(const std::string& name) const {
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<db::Tenant> tenant, catalog_->FindTenant(name));
  if (!tenant) return db::Tenant{db::TenantId::kNone, name, 0};  // Has no contexts.
  return *tenant;
}

Result<db::ContextRecord> Database::Find(const std::string& tenant,
                                         std::string_view context) const {
  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant owner, TenantOf(tenant));
  return catalog_->FindContext(owner.id, context);
}

// --- Sessions that come and go ---

void Database::BeginUse(ContextId context) { ++in_use_[context]; }

void Database::EndUse(ContextId context) {
  const auto found = in_use_.find(context);
  if (--found->second == 0) in_use_.erase(found);
}

void Database::SessionOpened(ContextId context) {
  MutexLock lock(&use_mutex_);
  ++num_sessions_;
  BeginUse(context);
}

void Database::SessionMoved(ContextId from, ContextId to) {
  if (from != ContextId::kNone && from != to) catalog_->Touch(from);  // As SessionClosed.
  MutexLock lock(&use_mutex_);
  EndUse(from);
  BeginUse(to);
}

void Database::SessionClosed(ContextId context) {
  // Used until now: what its TTL counts from.
  if (context != ContextId::kNone) catalog_->Touch(context);
  {
    MutexLock lock(&use_mutex_);
    --num_sessions_;
    EndUse(context);
  }
  SweepUnreferenced();
}

std::vector<ContextId> Database::ContextsInUse() const {
  MutexLock lock(&use_mutex_);
  std::vector<ContextId> contexts;
  for (const auto& [context, num_sessions] : in_use_) contexts.push_back(context);
  return contexts;
}

void Database::ReportDamage(const storage::Segment& segment, const Status& status) {
  if (status.code() != StatusCode::kCorruption || options_.read_only) return;
  // If the catalog can't be written either, the caller still gets its error; Verify finds both.
  (void)catalog_->Quarantine(static_cast<db::SegmentId>(segment.id()), status.message());
}

void Database::NoteDamage(const storage::Segment& segment, const Status& status) {
  if (status.code() != StatusCode::kCorruption || options_.read_only) return;
  damage_reports_.Note(static_cast<db::SegmentId>(segment.id()), status.message());
  background_.Add(kSessionLane, {.run = [this](derived::Lanes::Control*) {
                    damage_reports_.Quarantine();
                    return Status::Ok();
                  }});
}

// --- Admin ---

ContextInfo Database::InfoOf(const db::ContextDetail& detail) const {
  const db::ContextRecord& record = detail.context;
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
  for (const db::ChainSegment& link : detail.chain) {
    SegmentInfo& segment = info.segments.emplace_back();
    segment.segment_id = link.segment.id;
    segment.num_tokens_used = link.num_tokens_used;
    segment.num_tokens = link.segment.num_tokens;
    segment.file_bytes = link.segment.file_bytes;
    segment.num_contexts = link.num_contexts;
    segment.damage = link.segment.damage;
    for (const db::CompanionRecord& companion : link.segment.companions) {
      segment.companions.push_back({companion.kind, companion.generation, companion.file_bytes});
      info.companion_bytes += companion.file_bytes;
      info.derived_bytes[companion.kind] += companion.file_bytes;
    }
    if (builder_.IsPending(FactsOf(link.segment))) ++info.num_pending_companions;
  }
  return info;
}

Result<ContextInfo> Database::Describe(const std::string& tenant, std::string_view context) const {
  damage_reports_.Quarantine();
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord record, Find(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextDetail detail,
                          catalog_->Describe(record.tenant, record.id));
  ContextInfo info = InfoOf(detail);
  ATTNDB_ASSIGN_OR_RETURN(const ModelSpec spec, catalog_->GetModel(record.model));
  info.kv_dtype = spec.kv_dtype;
  info.fingerprint = spec.fingerprint;
  info.num_layers = spec.num_layers();
  std::set<std::pair<uint32_t, uint32_t>> heads;
  for (const db::ChainSegment& link : detail.chain) {
    DecodeNonFinite(link.segment.non_finite, spec, &heads);
  }
  for (const auto& [layer, head] : heads) {
    info.non_finite_heads.push_back("layer " + std::to_string(layer) + " head " +
                                    std::to_string(head));
  }
  return info;
}

Result<std::vector<ContextInfo>> Database::List(const std::string& tenant) const {
  damage_reports_.Quarantine();
  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant owner, TenantOf(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::ContextRecord> records, catalog_->List(owner.id));
  std::vector<ContextInfo> infos;
  for (const db::ContextRecord& record : records) {
    Result<ContextInfo> info = Describe(tenant, db::IdLabel(record.id));
    if (info.status().code() == StatusCode::kNotFound) continue;  // Dropped meanwhile.
    if (!info.ok()) return std::move(info).status();
    info->segments.clear();
    infos.push_back(*std::move(info));
  }
  return infos;
}

Result<std::vector<TokenId>> Database::Tokens(const std::string& tenant,
                                              std::string_view context) const {
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord record, Find(tenant, context));
  return catalog_->Tokens(record.id);
}

Status Database::Pin(const std::string& tenant, std::string_view context, bool pinned) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord record, Find(tenant, context));
  return catalog_->Pin(record.tenant, record.id, pinned);
}

Status Database::SetTtl(const std::string& tenant, std::string_view context,
                        std::optional<std::chrono::seconds> ttl) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord record, Find(tenant, context));
  return catalog_->SetTtl(record.tenant, record.id, ttl);
}

Status Database::SetQuota(const std::string& tenant, uint64_t bytes) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant owner, catalog_->EnsureTenant(tenant));
  return catalog_->SetQuota(owner.id, bytes);
}

Status Database::DeclareEqual(std::string_view fingerprint_a, std::string_view fingerprint_b) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  return catalog_->DeclareEqual(fingerprint_a, fingerprint_b);
}

Result<VerifyReport> Database::Verify(const std::string& tenant, const VerifyOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant owner, TenantOf(tenant));
  std::vector<db::SegmentRecord> segments;
  if (options.context.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(segments, catalog_->Segments(owner.id));
  } else {
    ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord record, Find(tenant, options.context));
    ATTNDB_ASSIGN_OR_RETURN(db::ContextDetail detail, catalog_->Describe(owner.id, record.id));
    for (db::ChainSegment& link : detail.chain) segments.push_back(std::move(link.segment));
  }
  VerifyReport report;
  uint64_t bytes_total = 0;
  for (const db::SegmentRecord& segment : segments) bytes_total += segment.total_bytes();
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> findings, catalog_->Verify());
  for (const std::string& finding : findings) {
    report.damages.push_back({0, std::string(kCatalogName), finding, {}});
  }
  for (const db::SegmentRecord& record : segments) {
    ATTNDB_RETURN_IF_ERROR(VerifySegment(record, &report));
    for (const db::CompanionRecord& companion : record.companions) {
      ATTNDB_RETURN_IF_ERROR(VerifyObject(record, companion, &report));
    }
    ++report.num_segments;
    report.num_bytes += record.total_bytes();
    if (options.progress && !options.progress(report.num_bytes, bytes_total)) {
      return Status::Cancelled("verify: cancelled after " + std::to_string(report.num_bytes) +
                               " of " + std::to_string(bytes_total) + " bytes");
    }
  }
  return report;
}

Status Database::VerifySegment(const db::SegmentRecord& record, VerifyReport* report) {
  Result<std::shared_ptr<storage::Segment>> segment = registry_.OpenAfresh(record);
  const Status status = segment.ok() ? (*segment)->VerifyAll() : segment.status();
  switch (status.code()) {
    case StatusCode::kOk:
      // What was damaged and is well again (a disk that came back) stays out of service: nobody
      // knows what else happened to it.
      if (record.damage.empty()) return Status::Ok();
      break;
    case StatusCode::kCorruption:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
    case StatusCode::kIoError:
      break;
    default:
      return status;
  }
  // A segment that was dropped while we looked is no damage.
  Result<db::SegmentRecord> again = catalog_->GetSegment(record.id);
  if (again.status().code() == StatusCode::kNotFound) return Status::Ok();
  Damage damage;
  damage.segment_id = record.id;
  damage.file = PathInStore({.segment_id = static_cast<uint64_t>(record.id)});
  damage.message = status.ok() ? record.damage : status.message();
  if (!options_.read_only && status.code() != StatusCode::kIoError) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::ContextRecord> contexts,
                            catalog_->Quarantine(record.id, damage.message));
    for (const db::ContextRecord& context : contexts) damage.contexts.push_back(context.Label());
  }
  report->damages.push_back(std::move(damage));
  return Status::Ok();
}

Status Database::WaitForBackground(const derived::Lanes::Progress& progress) {
  return background_.Wait(progress);
}

Result<DBStats> Database::Stats(const std::string& tenant) const {
  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant owner, TenantOf(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const db::CatalogStats catalog, catalog_->Stats(owner.id));
  DBStats stats;
  stats.path = path_;
  stats.read_only = options_.read_only;
  stats.format_version = db::Catalog::format_version();
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
  stats.memory_bytes = budget_.used_bytes();
  stats.memory_limit_bytes = budget_.limit_bytes();
  stats.num_damaged_segments = catalog.num_damaged_segments;
  stats.num_lookups = num_lookups_.load(std::memory_order_relaxed);
  stats.num_prompt_tokens = num_prompt_tokens_.load(std::memory_order_relaxed);
  stats.num_reused_tokens = num_reused_tokens_.load(std::memory_order_relaxed);
  stats.num_stores = num_stores_.load(std::memory_order_relaxed);
  stats.num_evictions = num_evictions_.load(std::memory_order_relaxed);
  stats.bytes_written = bytes_written_.load(std::memory_order_relaxed);
  stats.bytes_merged = bytes_merged_.load(std::memory_order_relaxed);
  MutexLock lock(&use_mutex_);
  stats.num_sessions = num_sessions_;
  return stats;
}

}  // namespace attndb::internal
