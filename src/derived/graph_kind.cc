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

class GraphKind final : public Kind {
 public:
  GraphKind()
      : Kind({.use = std::string(kGraph),
              .object = "graph_1",
              .parts = {"graph"},
              .min_tokens = 2048,  // Shorter runs are scored faster than walked.
              .slow = true}) {}

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer) const override {
    return index::GraphIndex::BytesFor(
        {run.num_tokens(), KeyElements(run, layer), run.shape().dtype});
  }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    const uint64_t first_key = FirstKey(*source.run);
    ATTNDB_ASSIGN_OR_RETURN(
        index::GraphIndex graph,
        index::GraphIndex::Build(SourceOf(*source.keys, first_key),
                                 {.pool = source.pool, .cancel = source.cancel}));
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
  static Head HeadOf(std::shared_ptr<const OwnedHead<index::GraphIndex>> owned) {
    return {.index = &owned->object, .owner = owned};
  }
};

}  // namespace

std::unique_ptr<const Kind> MakeGraphKind() { return std::make_unique<const GraphKind>(); }

}  // namespace attndb::derived
