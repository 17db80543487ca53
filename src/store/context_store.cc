#include "store/context_store.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "store/object_path.h"
#include "store/orphans.h"
#include "store/place.h"
#include "store/store_path.h"

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
  // Make a store only where surely none exists: a failing disk must not cost the catalog.
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

std::string ReservePath(const std::string& path) {
  return storage::JoinPath(path, std::string(kReserveName));
}

// The part of the reserve that an open takes on a full disk. However the open ends, the reserve is
// refilled as far as there is room: the next open may need it.
class BorrowedReserve {
 public:
  explicit BorrowedReserve(std::shared_ptr<DropReserve> reserve) : reserve_(std::move(reserve)) {}
  ~BorrowedReserve() {
    if (is_borrowed_) reserve_->Take();
  }
  BorrowedReserve(const BorrowedReserve&) = delete;
  BorrowedReserve& operator=(const BorrowedReserve&) = delete;

  // Whether the step that failed with the status may find room now.
  bool MakesRoomAfter(const Status& status) {
    if (status.code() != StatusCode::kResourceExhausted || is_borrowed_) return false;
    is_borrowed_ = true;
    return reserve_->Release() > 0;
  }

 private:
  const std::shared_ptr<DropReserve> reserve_;
  bool is_borrowed_ = false;
};

// A writer removes no file that a session of its own reads, but a reader of another process may
// find one gone once it is closed: it keeps twice as many open.
size_t MaxOpenFiles(const DBOptions& options) {
  return storage::FilePool::DefaultLimit() * (options.read_only ? 2 : 1);
}

}  // namespace

Result<std::unique_ptr<ContextStore>> ContextStore::Open(const std::string& path,
                                                         const DBOptions& options,
                                                         const Given& given) {
  ATTNDB_RETURN_IF_ERROR(CheckStorePath(path));
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
  const auto place = std::make_shared<Place>();
  ATTNDB_RETURN_IF_ERROR(place->Add(path));
  catalog_options.check_place = [place] { return place->Check(); };
  const auto reserve = std::make_shared<DropReserve>(given.file_system, ReservePath(path));
  BorrowedReserve borrowed(reserve);
  Result<std::unique_ptr<Catalog>> catalog = Catalog::Open(catalog_options);
  // SQLite makes files beside the catalog. A process that comes to make room must be able to open.
  if (!options.read_only && borrowed.MakesRoomAfter(catalog.status())) {
    catalog = Catalog::Open(catalog_options);
  }
  ATTNDB_RETURN_IF_ERROR(catalog.status());
  auto store = std::make_unique<ContextStore>(Key(), path, options, given, std::move(lock), reserve,
                                              *std::move(catalog));
  store->place_ = place;
  if (options.read_only) return store;
  ATTNDB_RETURN_IF_ERROR(place->Add(catalog_options.path));
  ATTNDB_RETURN_IF_ERROR(place->Add(store->settings_.segments_dir));
  Status begun = store->BeginToWrite();
  if (borrowed.MakesRoomAfter(begun)) begun = store->BeginToWrite();
  ATTNDB_RETURN_IF_ERROR(begun);
  reserve->Take();
  return store;
}

Status ContextStore::BeginToWrite() {
  ATTNDB_RETURN_IF_ERROR(CheckOwner(settings_, catalog_.get()));
  ATTNDB_RETURN_IF_ERROR(derived_.ForgetFormerKinds());
  ATTNDB_RETURN_IF_ERROR(ClearOrphans(settings_, catalog_.get()));
  return derived_.ScheduleMissing(TenantId::kNone);
}

ContextStore::ContextStore(Key, std::string path, DBOptions options, const Given& given,
                           std::unique_ptr<storage::FileLock> lock,
                           std::shared_ptr<DropReserve> reserve, std::unique_ptr<Catalog> catalog)
    : settings_{std::move(path), std::move(options), given.file_system},
      lock_(std::move(lock)),
      catalog_(std::move(catalog)),
      files_(given.file_system, MaxOpenFiles(settings_.options)),
      registry_(&files_, settings_.segments_dir, catalog_.get(), given.budget),
      damage_(catalog_.get(), &registry_, &background_),
      reserve_(std::move(reserve)),
      object_files_(&files_, settings_.segments_dir, catalog_->store_uuid()),
      objects_(given.kinds, given.budget, &object_files_,
               [this](const storage::ObjectName& name, const derived::Kind& kind,
                      const Status& status) { builder_.ReportLoss(name, kind, status); }),
      builder_({given.kinds, &objects_, given.budget, &object_files_, &derived_, &background_},
               {.writes = settings_.writes_objects(),
                .also = given.also,
                .looks_again = settings_.options.read_only,
                .grows = settings_.options.grow_graphs}),
      merged_runs_([this](const MergedRun& merged) { return derived_.HasThoseOfRun(merged); },
                   given.merged),
      uses_({catalog_.get(), &damage_, &registry_, &merged_runs_, &objects_, &builder_,
             &object_files_}),
      commits_(catalog_.get(), &registry_, &uses_),
      space_(&settings_, catalog_.get(), &uses_),
      derived_({&settings_, catalog_.get(), &damage_, &uses_, &commits_, &space_, given.kinds,
                &objects_, &builder_, &object_files_, &merged_runs_, &background_, &counts_}),
      verifier_({&settings_, catalog_.get(), &damage_, &object_files_, &derived_}),
      merger_({&settings_, catalog_.get(), &registry_, &uses_, &commits_, &space_, &derived_,
               &objects_, &builder_, &verifier_, &merged_runs_, &background_, &counts_}),
      lookup_({&settings_, catalog_.get(), &damage_, &uses_}),
      admin_({&settings_, catalog_.get(), &damage_, &builder_}),
      background_({derived::Lanes::Priority::kLow,     // Sessions wait for less to read.
                   derived::Lanes::Priority::kLowest,  // Long jobs.
                   derived::Lanes::Priority::kNormal,  // Measures: short, wrong if starved.
                   derived::Lanes::Priority::kLow},    // Merges.
                  settings_.options.background_threads),
      publisher_({&settings_, catalog_.get(), &registry_, &damage_, &uses_, &commits_, &space_,
                  &derived_, &objects_, &merger_, reserve_.get(), &counts_}) {}

Status ContextStore::WaitForBackground(const std::string& tenant, bool of_all,
                                       const derived::Lanes::Progress& progress) {
  ATTNDB_RETURN_IF_ERROR(merger_.CheckMayWait("wait for the background"));
  if (of_all) return background_.Wait(progress);
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, catalog_->owners()->FindTenant(tenant));
  if (owner.id == TenantId::kNone) return Status::Ok();  // It has stored nothing.
  return background_.Wait(static_cast<uint64_t>(owner.id), progress);
}

Result<DBStats> ContextStore::Stats(const std::string& tenant, bool of_all) {
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, catalog_->owners()->FindTenant(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const CatalogStats catalog, catalog_->Stats(owner.id));
  DBStats stats;
  stats.path = settings_.path;
  stats.read_only = settings_.options.read_only;
  stats.format_version = Catalog::format_version();
  stats.num_contexts = catalog.num_contexts;
  stats.num_segments = catalog.num_segments;
  stats.num_tokens = catalog.num_tokens;
  stats.file_bytes = catalog.file_bytes;
  stats.num_companions = catalog.num_companions;
  stats.companion_bytes = catalog.companion_bytes;
  ATTNDB_ASSIGN_OR_RETURN(stats.num_pending_companions, derived_.CountPending(owner.id));
  stats.quota_bytes = owner.quota_bytes;
  stats.num_damaged_segments = catalog.num_damaged_segments;
  if (of_all) {
    counts_.AddAllTo(&stats);
    stats.background_seconds = static_cast<double>(background_.busy_ns()) * 1e-9;
  } else {
    counts_.Of(tenant)->AddTo(&stats);
  }
  stats.evicted = counts_.Of(tenant)->evictions.labels();
  return stats;
}

Status ContextStore::CheckPlace() const { return place_->Check(); }

}  // namespace attndb::store
