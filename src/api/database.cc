#include "api/database.h"

#include <cmath>
#include <utility>

#include "api/custom_types.h"
#include "api/index_use.h"
#include "common/free_memory.h"
#include "planner/builtin_plans.h"
#include "storage/kv/chain_rows.h"

namespace attndb::internal {
namespace {

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

// Fills in the parts that the caller did not give.
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

DBOptions Resolved(DBOptions options, const std::string& machine_root) {
  if (options.host_memory_bytes == 0) {
    options.host_memory_bytes = FreeMemoryBytes(machine_root) / 4 * 3;
  }
  return options;
}

}  // namespace

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
  const DBOptions resolved = Resolved(options, planning.machine_root);
  const std::shared_ptr<Database> database(
      std::make_unique<Database>(Key(), path, resolved, file_system, std::move(planning)).release(),
      CloseInOwnProcess());
  ATTNDB_RETURN_IF_ERROR(database->OpenStore(path, index_use));
  return database;
}

Database::Database(Key, const std::string& path, const DBOptions& options,
                   storage::FileSystem* file_system, Planning planning)
    : options_(options),
      file_system_(file_system),
      planning_(std::move(planning)),
      budget_(options_.host_memory_bytes),
      kinds_(MakeKinds(options_)),
      pool_(options_.num_threads),
      hints_(file_system_, path),
      prices_({.given = planning_.machine,
               .measures = options_.measure_machine,
               .read_only = options_.read_only,
               .reserve = [this](uint64_t bytes) { return ReserveForPrices(bytes); }},
              &hints_),
      session_settings_{.dense_query_tokens = options_.dense_query_tokens,
                        .host_memory_bytes = options_.host_memory_bytes,
                        .query_sample = options_.query_sample,
                        .learns = options_.measure_machine} {}

Status Database::CheckProcess() const {
  if (ForkCount() == fork_count_) return Status::Ok();
  return Status::FailedPrecondition(
      "the store was opened before this process was forked off: a fork has neither its threads nor "
      "its lock; open it after the fork, or in processes that are started anew");
}

Status Database::OpenStore(const std::string& path, const std::string& index_use) {
  ATTNDB_ASSIGN_OR_RETURN(
      store_,
      store::ContextStore::Open(path, options_,
                                {.file_system = file_system_,
                                 .budget = &budget_,
                                 .kinds = &kinds_,
                                 .merged = [this] { MoveIdleSessions(); },
                                 .also = index_use.empty() ? nullptr : &kinds_.ForUse(index_use)}));
  session_parts_ = PartsOfSessions();
  return Status::Ok();
}

SessionParts Database::PartsOfSessions() {
  return {.sessions = &sessions_,
          .plans = planning_.registry.get(),
          .operators = planning_.operators.get(),
          .scratch = &scratch_,
          .budget = &budget_,
          .make_rows = planning_.make_rows,
          .kinds = &kinds_,
          .objects = &store_->objects(),
          .builder = store_->builder(),
          .pool = &pool_,
          .num_merged = &store_->merged_runs().num_added(),
          .machine = &prices_.current()};
}

Database::~Database() {
  if (store_ == nullptr) return;  // It could not be opened.
  store_->background()->Stop();   // Its learned statistics are kept.
  if (!options_.read_only) hints_.Save();
}

void Database::SessionOpened(const std::string& tenant) {
  store_->counts()->Of(tenant)->num_sessions.Add(1);
}

void Database::SessionClosed(const std::string& tenant) {
  store_->counts()->Of(tenant)->num_sessions.Subtract(1);
  store_->uses()->Sweep();
}

void Database::AskForPrices() {
  if (!prices_.ShouldMeasure()) return;
  store_->background()->Add(store::kShortLane, {.run = [this](derived::Lanes::Control*) {
                              // Without memory for the measurement, the fixed prices stay.
                              (void)prices_.Measure();
                              return Status::Ok();
                            }});
}

// Nothing is dropped for prices: the fixed ones do.
std::shared_ptr<const void> Database::ReserveForPrices(uint64_t bytes) {
  std::optional<storage::Reservation> room = budget_.ReserveIfFree(bytes);
  if (!room) return nullptr;
  return std::make_shared<const storage::Reservation>(*std::move(room));
}

void Database::MoveIdleSessions() {
  if (moves_sessions_.exchange(true)) return;  // A job that has not begun does it.
  store_->background()->Add(store::kShortLane, {.run = [this](derived::Lanes::Control*) {
                              moves_sessions_.store(false);
                              sessions_.MoveIdle();
                              return Status::Ok();
                            }});
}

void Database::LetGo(HeldChain held) {
  // A job is a function that can be copied.
  auto shared = std::make_shared<HeldChain>(std::move(held));
  store_->background()->Add(store::kShortLane, {.run = [this, shared](derived::Lanes::Control*) {
                              *shared = {};
                              store_->uses()->Sweep();
                              return Status::Ok();
                            }});
}

Result<DBStats> Database::Stats(const std::string& tenant, bool of_all) {
  ATTNDB_ASSIGN_OR_RETURN(DBStats stats, store_->Stats(tenant, of_all));
  if (of_all) stats.memory_bytes = budget_.used_bytes();
  stats.memory_limit_bytes = budget_.limit_bytes();
  return stats;
}

Result<BuildReport> Database::Build(const std::string& tenant, std::string_view context,
                                    std::string_view index, const BuildOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string use, IndexUse(index, plans()));
  return store_->derived()->Build(tenant, context, kinds_.ForUse(use), options);
}

}  // namespace attndb::internal
