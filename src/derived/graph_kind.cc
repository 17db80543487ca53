#include "derived/graph_kind.h"

#include <string>
#include <utility>

#include "derived/kinds.h"
#include "derived/owned_head.h"
#include "derived/plane_sources.h"
#include "index/graph/graph_index.h"
#include "index/graph/head_graphs.h"

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

index::GraphShape ShapeOf(const storage::KvRun& run, LayerId layer, uint64_t first_key) {
  return {run.num_tokens() - first_key, KeyElements(run, layer), run.shape().dtype};
}

// The threads of a build, and the flag that ends it.
struct BuildCall {
  ThreadPool* pool = nullptr;
  const std::atomic<bool>* cancel = nullptr;
};

BuildCall CallOf(const HeadSource& source) { return {source.pool, source.cancel}; }

// How a graph is built.
class GraphMaker {
 public:
  virtual ~GraphMaker() = default;
  // At most.
  virtual uint64_t BytesFor(const index::GraphShape& shape) const = 0;
  virtual Result<index::GraphIndex> Build(const index::GraphSource& source,
                                          const BuildCall& call) const = 0;
  // `prior`: of the first keys, but not of all.
  virtual Result<index::GraphIndex> Grow(const index::GraphSource& source,
                                         const index::GraphIndex& prior,
                                         const BuildCall& call) const = 0;
};

class OurMaker final : public GraphMaker {
 public:
  explicit OurMaker(size_t max_queries) : max_queries_(max_queries) {}

  uint64_t BytesFor(const index::GraphShape& shape) const override {
    return index::GraphIndex::BytesFor(shape);
  }
  Result<index::GraphIndex> Build(const index::GraphSource& source,
                                  const BuildCall& call) const override {
    return index::GraphIndex::Build(source, OptionsOf(call));
  }
  Result<index::GraphIndex> Grow(const index::GraphSource& source, const index::GraphIndex& prior,
                                 const BuildCall& call) const override {
    return index::GraphIndex::Grow(source, prior, OptionsOf(call));
  }

 private:
  index::GraphOptions OptionsOf(const BuildCall& call) const {
    return {.max_queries = max_queries_, .pool = call.pool, .cancel = call.cancel};
  }

  const size_t max_queries_;
};

class RoarMaker final : public GraphMaker {
 public:
  explicit RoarMaker(const index::RoarOptions& options) : options_(options) {}

  uint64_t BytesFor(const index::GraphShape& shape) const override {
    return index::GraphIndex::BytesForRoar(shape, options_.max_degree);
  }
  Result<index::GraphIndex> Build(const index::GraphSource& source,
                                  const BuildCall& call) const override {
    return index::GraphIndex::BuildRoar(source, OptionsOf(call));
  }
  Result<index::GraphIndex> Grow(const index::GraphSource& source, const index::GraphIndex& prior,
                                 const BuildCall& call) const override {
    return index::GraphIndex::GrowRoar(source, prior, OptionsOf(call));
  }

 private:
  index::RoarOptions OptionsOf(const BuildCall& call) const {
    index::RoarOptions options = options_;
    options.pool = call.pool;
    options.cancel = call.cancel;
    return options;
  }

  const index::RoarOptions options_;
};

// The name of the remains of an interrupted build, at most 16 bytes.
std::string BegunOf(const std::string& use) {
  return (use == "roargraph_head" ? "roar_head" : use) + "_1_cut";
}

Kind::Traits TraitsOf(const std::string& use, const char* part, bool grows) {
  return {.use = use,
          .object = use + "_1",
          .parts = {part},
          .min_tokens = 2048,  // Shorter runs are scored faster than walked.
          .slow = true,
          .grows = grows,
          .begun = BegunOf(use)};
}

template <typename Graphs>
BuiltHead BuiltHeadOf(Graphs graphs, uint64_t first_key) {
  const uint64_t num_keys = graphs.num_keys();
  graphs.set_first_key(first_key);
  const auto owned = Own(std::move(graphs));
  return {{.index = &owned->object, .owner = owned}, {owned->object.bytes()}, num_keys};
}

// `graphs` lie in the bytes of `parts`.
template <typename Graphs>
Head ReadHeadOf(Graphs graphs, uint64_t first_key, std::vector<storage::ObjectRange> parts) {
  graphs.set_first_key(first_key);
  const auto owned = Own(std::move(graphs), std::move(parts));
  return {.index = &owned->object, .owner = owned};
}

// One graph, which the group shares.
class GroupGraphKind final : public Kind {
 public:
  GroupGraphKind(std::string_view name, std::shared_ptr<const GraphMaker> maker)
      : Kind(TraitsOf(std::string(name), "graph", /*grows=*/true)), maker_(std::move(maker)) {}

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer, const LayerSpec&) const override {
    return maker_->BytesFor(ShapeOf(run, layer, 0));
  }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    const uint64_t first_key = FirstKey(*source.run);
    ATTNDB_ASSIGN_OR_RETURN(index::GraphIndex graph, Make(source, first_key));
    return BuiltHeadOf(std::move(graph), first_key);
  }

  Result<Head> Parse(HeadParts parts) const override {
    const uint64_t first_key = FirstKey(*parts.run);
    ATTNDB_ASSIGN_OR_RETURN(
        index::GraphIndex graph,
        index::GraphIndex::Parse(parts.parts[0].bytes, ShapeOf(*parts.run, parts.layer, first_key),
                                 parts.name));
    return ReadHeadOf(std::move(graph), first_key, std::move(parts.parts));
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
      if (prior.ok()) return maker_->Grow(all, *prior, CallOf(source));
    }
    return maker_->Build(all, CallOf(source));
  }

  const std::shared_ptr<const GraphMaker> maker_;
};

// One graph for each q head of the group. They are built anew of all keys, and do not grow.
class HeadGraphsKind final : public Kind {
 public:
  HeadGraphsKind(std::string_view name, std::shared_ptr<const GraphMaker> maker)
      : Kind(TraitsOf(std::string(name) + "_head", "graphs", /*grows=*/false)),
        maker_(std::move(maker)) {}

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer,
                     const LayerSpec& spec) const override {
    return index::HeadGraphs::BytesFor(maker_->BytesFor(ShapeOf(run, layer, 0)), spec.group_size());
  }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    const uint64_t first_key = FirstKey(*source.run);
    const auto build = [&](const index::GraphSource& of_head) {
      return maker_->Build(of_head, CallOf(source));
    };
    ATTNDB_ASSIGN_OR_RETURN(index::HeadGraphs graphs,
                            index::HeadGraphs::Build(SourceOf(*source.keys, first_key),
                                                     source.spec->group_size(), build));
    return BuiltHeadOf(std::move(graphs), first_key);
  }

  Result<Head> Parse(HeadParts parts) const override {
    const uint64_t first_key = FirstKey(*parts.run);
    ATTNDB_ASSIGN_OR_RETURN(
        index::HeadGraphs graphs,
        index::HeadGraphs::Parse(parts.parts[0].bytes, ShapeOf(*parts.run, parts.layer, first_key),
                                 parts.spec->group_size(), parts.name));
    return ReadHeadOf(std::move(graphs), first_key, std::move(parts.parts));
  }

 private:
  const std::shared_ptr<const GraphMaker> maker_;
};

index::RoarOptions RoarOptionsOf(const KindOptions& options) {
  index::RoarOptions roar = {.max_queries = options.max_training_queries};
  if (options.roar_keys_per_query != 0) roar.keys_per_query = options.roar_keys_per_query;
  if (options.roar_max_degree != 0) roar.max_degree = options.roar_max_degree;
  if (options.roar_search_window != 0) roar.search_window = options.roar_search_window;
  return roar;
}

}  // namespace

std::vector<std::unique_ptr<const Kind>> MakeGraphKinds(const KindOptions& options) {
  const auto ours = std::make_shared<const OurMaker>(options.max_training_queries);
  const auto roar = std::make_shared<const RoarMaker>(RoarOptionsOf(options));
  std::vector<std::unique_ptr<const Kind>> kinds;
  kinds.push_back(std::make_unique<const GroupGraphKind>(kGraph, ours));
  kinds.push_back(std::make_unique<const GroupGraphKind>(kRoarGraph, roar));
  kinds.push_back(std::make_unique<const HeadGraphsKind>(kGraph, ours));
  kinds.push_back(std::make_unique<const HeadGraphsKind>(kRoarGraph, roar));
  return kinds;
}

}  // namespace attndb::derived
