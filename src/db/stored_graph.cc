#include "db/stored_graph.h"

#include <memory>
#include <string>
#include <utility>

#include "db/plane_sources.h"
#include "db/stored_heads.h"
#include "index/graph/graph_index.h"
#include "storage/vfs/format.h"

namespace attndb::internal {
namespace {

// Keys of a context's first tokens: sinks. One that scores high for every query would be the first
// neighbour of all.
constexpr uint64_t kSinkKeys = 16;

uint64_t FirstKey(const storage::Segment& segment) {
  return segment.first_position() == 0 ? kSinkKeys : 0;
}

uint64_t HeadBytes(const storage::Segment& segment, LayerId layer) {
  return index::GraphIndex::BytesFor(
      {segment.num_tokens(), KeyElements(segment, layer), segment.shape().dtype});
}

index::GraphSource SourceOf(const index::PlaneSource& all, uint64_t first_key) {
  index::GraphSource source;
  source.keys = kernels::RowsFrom(all.keys, first_key);
  source.num_keys = all.num_keys - first_key;
  source.queries = all.queries;
  source.first_token = first_key;
  return source;
}

Result<HeadIndex> ReadHead(const storage::Companion& companion, const storage::Segment& segment,
                           LayerId layer, uint32_t kv_head) {
  HeadIndex head;
  const storage::PartPlace place = {layer, kv_head, 0};
  if (companion.num_rows(place) == 0) return head;
  ATTNDB_ASSIGN_OR_RETURN(storage::ObjectRange range, companion.ReadPart(place));
  const uint64_t first_key = FirstKey(segment);
  ATTNDB_ASSIGN_OR_RETURN(
      index::GraphIndex graph,
      index::GraphIndex::Parse(
          range.bytes,
          {segment.num_tokens() - first_key, KeyElements(segment, layer), segment.shape().dtype},
          storage::Describe(companion.name()) + ", layer " + std::to_string(layer) + ", head " +
              std::to_string(kv_head)));
  graph.set_first_key(first_key);
  head.index = std::make_unique<const index::GraphIndex>(std::move(graph));
  head.parts.push_back(std::move(range.buffer));
  return head;
}

Status WriteHead(const storage::Segment& segment, LayerId layer, uint32_t kv_head,
                 const PlaneSources& sources, ThreadPool* pool, storage::CompanionWriter* writer) {
  ATTNDB_ASSIGN_OR_RETURN(const storage::HeadRows rows, segment.ReadKeys(layer, kv_head));
  ATTNDB_ASSIGN_OR_RETURN(
      const index::GraphIndex graph,
      index::GraphIndex::Build(SourceOf(sources.Of(kv_head, rows.data()), FirstKey(segment)),
                               {.pool = pool, .cancel = writer->cancel()}));
  return writer->AddPart(graph.bytes(), graph.num_keys());
}

}  // namespace

const CompanionKind& GraphForm::kind() const {
  // Shorter runs are scored faster than walked.
  static const CompanionKind kKind = {"graph_1", {"graph"}, 2048, {}};
  return kKind;
}

uint64_t GraphForm::MemoryBytes(const storage::Segment& segment, LayerId layer) const {
  // Read in whole granules: it begins and ends inside one.
  constexpr uint64_t kEnds = 2 * storage::kGranuleBytes;
  return segment.shape().layers[layer].num_kv_heads * (HeadBytes(segment, layer) + kEnds);
}

uint64_t GraphForm::ObjectBytes(const storage::Segment& segment) const {
  return SumOverHeads(segment, [&](LayerId layer) { return HeadBytes(segment, layer); });
}

Result<std::vector<HeadIndex>> GraphForm::Read(const storage::Companion& companion,
                                               const storage::Segment& segment,
                                               LayerId layer) const {
  return ReadHeads<HeadIndex>(
      segment, layer, [&](uint32_t head) { return ReadHead(companion, segment, layer, head); });
}

Status GraphForm::Write(const storage::Segment& segment, const ModelSpec& spec, ThreadPool* pool,
                        storage::CompanionWriter* writer,
                        const std::function<void(LayerId)>& layer_done) const {
  const auto begin = [&](LayerId layer) {
    return [&segment, layer, pool, writer,
            sources = PlaneSources(segment, layer, spec.layers[layer])](uint32_t head) {
      return WriteHead(segment, layer, head, sources, pool, writer);
    };
  };
  return WriteHeads(segment, spec, 1, writer, begin, layer_done);
}

}  // namespace attndb::internal
