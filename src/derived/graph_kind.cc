#include "derived/graph_kind.h"

#include <utility>

#include "derived/kinds.h"
#include "derived/owned_head.h"
#include "derived/plane_sources.h"
#include "index/graph/graph_index.h"

namespace attndb::derived {
namespace {

// Keys of a context's first tokens: sinks. One that scores high for every query would be the first
// neighbour of all.
constexpr uint64_t kSinkKeys = 16;

uint64_t FirstKey(const storage::KvRun& run) { return run.first_position() == 0 ? kSinkKeys : 0; }

index::GraphSource SourceOf(const index::PlaneSource& all, uint64_t first_key) {
  index::GraphSource source;
  source.keys = kernels::RowsFrom(all.keys, first_key);
  source.num_keys = all.num_keys - first_key;
  source.queries = all.queries;
  source.first_token = first_key;
  return source;
}

Kind::Traits TraitsOf(std::string_view use, std::string object) {
  return {.use = std::string(use),
          .object = std::move(object),
          .parts = {"graph"},
          .min_tokens = 2048,  // Shorter runs are scored faster than walked.
          .slow = true,
          .grows = true};
}

// What graphs of both builds have in common.
class AnyGraphKind : public Kind {
 public:
  using Kind::Kind;

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer) const override {
    return BytesFor({run.num_tokens(), KeyElements(run, layer), run.shape().dtype});
  }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    const uint64_t first_key = FirstKey(*source.run);
    ATTNDB_ASSIGN_OR_RETURN(index::GraphIndex graph, Make(source, first_key));
    const uint64_t num_keys = graph.num_keys();
    graph.set_first_key(first_key);
    const auto owned = Own(std::move(graph));
    return BuiltHead{HeadOf(owned), {owned->object.bytes()}, num_keys};
  }

  Result<Head> Parse(HeadParts parts) const override {
    const storage::KvRun& run = *parts.run;
    const uint64_t first_key = FirstKey(run);
    ATTNDB_ASSIGN_OR_RETURN(
        index::GraphIndex graph,
        index::GraphIndex::Parse(
            parts.parts[0].bytes,
            {run.num_tokens() - first_key, KeyElements(run, parts.layer), run.shape().dtype},
            parts.name));
    graph.set_first_key(first_key);
    return HeadOf(Own(std::move(graph), std::move(parts.parts)));
  }

 private:
  // A prior head that can't be read is a loss of time alone.
  Result<index::GraphIndex> Make(const HeadSource& source, uint64_t first_key) const {
    const index::GraphSource all = SourceOf(*source.keys, first_key);
    const uint64_t num_before = source.prior == nullptr ? 0 : source.prior->num_tokens;
    if (num_before > first_key && num_before < source.run->num_tokens()) {
      const PriorHead& before = *source.prior;
      const Result<index::GraphIndex> prior = index::GraphIndex::Parse(
          before.parts[0].bytes, {num_before - first_key, all.keys.num_elements, all.keys.dtype},
          before.name);
      if (prior.ok()) return GrowGraph(all, *prior, source.pool, source.cancel);
    }
    return BuildGraph(all, source.pool, source.cancel);
  }

  virtual uint64_t BytesFor(const index::GraphShape& shape) const = 0;
  virtual Result<index::GraphIndex> BuildGraph(const index::GraphSource& source, ThreadPool* pool,
                                               const std::atomic<bool>* cancel) const = 0;
  // `prior`: of the first keys, but not of all.
  virtual Result<index::GraphIndex> GrowGraph(const index::GraphSource& source,
                                              const index::GraphIndex& prior, ThreadPool* pool,
                                              const std::atomic<bool>* cancel) const = 0;

  static Head HeadOf(std::shared_ptr<const OwnedHead<index::GraphIndex>> owned) {
    return {.index = &owned->object, .owner = owned};
  }
};

class GraphKind final : public AnyGraphKind {
 public:
  explicit GraphKind(const KindOptions& options)
      : AnyGraphKind(TraitsOf(kGraph, "graph_1")), max_queries_(options.max_training_queries) {}

 private:
  uint64_t BytesFor(const index::GraphShape& shape) const override {
    return index::GraphIndex::BytesFor(shape);
  }
  Result<index::GraphIndex> BuildGraph(const index::GraphSource& source, ThreadPool* pool,
                                       const std::atomic<bool>* cancel) const override {
    return index::GraphIndex::Build(source, OptionsOf(pool, cancel));
  }
  Result<index::GraphIndex> GrowGraph(const index::GraphSource& source,
                                      const index::GraphIndex& prior, ThreadPool* pool,
                                      const std::atomic<bool>* cancel) const override {
    const index::GraphSource added = index::WithQueriesFrom(source, prior.num_keys());
    // Without q of the new tokens a graph knows nothing of their keys.
    if (added.queries.num_rows() == 0) return BuildGraph(source, pool, cancel);
    const index::GraphRun run = {&prior, 0};
    return index::GraphIndex::Extend(added, {&run, 1}, OptionsOf(pool, cancel));
  }

  index::GraphOptions OptionsOf(ThreadPool* pool, const std::atomic<bool>* cancel) const {
    return {.max_queries = max_queries_, .pool = pool, .cancel = cancel};
  }

  const size_t max_queries_;
};

class RoarGraphKind final : public AnyGraphKind {
 public:
  explicit RoarGraphKind(const index::RoarOptions& options)
      : AnyGraphKind(TraitsOf(kRoarGraph, "roargraph_1")), options_(options) {}

 private:
  uint64_t BytesFor(const index::GraphShape& shape) const override {
    return index::GraphIndex::BytesForRoar(shape, options_.max_degree);
  }
  Result<index::GraphIndex> BuildGraph(const index::GraphSource& source, ThreadPool* pool,
                                       const std::atomic<bool>* cancel) const override {
    return index::GraphIndex::BuildRoar(source, OptionsOf(pool, cancel));
  }
  Result<index::GraphIndex> GrowGraph(const index::GraphSource& source,
                                      const index::GraphIndex& prior, ThreadPool* pool,
                                      const std::atomic<bool>* cancel) const override {
    return index::GraphIndex::GrowRoar(source, prior, OptionsOf(pool, cancel));
  }

  index::RoarOptions OptionsOf(ThreadPool* pool, const std::atomic<bool>* cancel) const {
    index::RoarOptions options = options_;
    options.pool = pool;
    options.cancel = cancel;
    return options;
  }

  const index::RoarOptions options_;
};

}  // namespace

std::unique_ptr<const Kind> MakeGraphKind(const KindOptions& options) {
  return std::make_unique<const GraphKind>(options);
}

std::unique_ptr<const Kind> MakeRoarGraphKind(const KindOptions& options) {
  index::RoarOptions roar = {.max_queries = options.max_training_queries};
  if (options.roar_keys_per_query != 0) roar.keys_per_query = options.roar_keys_per_query;
  if (options.roar_max_degree != 0) roar.max_degree = options.roar_max_degree;
  if (options.roar_search_window != 0) roar.search_window = options.roar_search_window;
  return std::make_unique<const RoarGraphKind>(roar);
}

}  // namespace attndb::derived
