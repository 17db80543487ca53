#include "db/stored_planes.h"

#include <utility>

#include "db/plane_sources.h"
#include "db/stored_heads.h"
#include "storage/vfs/format.h"

namespace attndb::internal {
namespace {

enum Part : uint32_t { kMain, kLow, kNumParts };

uint64_t HeadBytes(const storage::Segment& segment, LayerId layer) {
  return index::KeyPlanes::BytesFor(segment.num_tokens(), KeyElements(segment, layer));
}

Result<HeadPlanes> ReadHead(const storage::Companion& companion, const storage::Segment& segment,
                            LayerId layer, uint32_t kv_head) {
  HeadPlanes head;
  const storage::PartPlace main = {layer, kv_head, kMain};
  if (companion.num_rows(main) == 0) return head;
  ATTNDB_ASSIGN_OR_RETURN(storage::ObjectRange main_range, companion.ReadPart(main));
  ATTNDB_ASSIGN_OR_RETURN(storage::ObjectRange low_range,
                          companion.ReadPart({layer, kv_head, kLow}));
  const index::PlaneShape expected = {segment.num_tokens(), KeyElements(segment, layer)};
  ATTNDB_ASSIGN_OR_RETURN(
      head.planes,
      index::KeyPlanes::Parse({main_range.bytes, low_range.bytes}, expected,
                              storage::Describe(companion.name()) + ", layer " +
                                  std::to_string(layer) + ", head " + std::to_string(kv_head)));
  head.main = std::move(main_range.buffer);
  head.low = std::move(low_range.buffer);
  return head;
}

Status WriteHead(const storage::Segment& segment, LayerId layer, uint32_t kv_head,
                 const PlaneSources& sources, storage::CompanionWriter* writer) {
  ATTNDB_ASSIGN_OR_RETURN(const storage::HeadRows keys, segment.ReadKeys(layer, kv_head));
  ATTNDB_ASSIGN_OR_RETURN(const index::KeyPlanes planes,
                          index::KeyPlanes::Build(sources.Of(kv_head, keys.data())));
  const index::PlaneParts parts = planes.num_keys() == 0 ? index::PlaneParts() : planes.parts();
  ATTNDB_RETURN_IF_ERROR(writer->AddPart(parts.main, planes.num_keys()));
  return writer->AddPart(parts.low, planes.num_keys());
}

}  // namespace

const CompanionKind& KeyPlanesForm::kind() const {
  static const CompanionKind kKind = {
      "key_planes_3", {"main", "low"}, 256, /*former=*/{"key_planes", "key_planes_2"}};
  return kKind;
}

uint64_t KeyPlanesForm::MemoryBytes(const storage::Segment& segment, LayerId layer) const {
  // Read in whole granules: each part begins and ends inside one.
  constexpr uint64_t kEnds = uint64_t{2} * kNumParts * storage::kGranuleBytes;
  return segment.shape().layers[layer].num_kv_heads * (HeadBytes(segment, layer) + kEnds);
}

uint64_t KeyPlanesForm::ObjectBytes(const storage::Segment& segment) const {
  return SumOverHeads(segment, [&](LayerId layer) { return HeadBytes(segment, layer); });
}

Result<std::vector<HeadPlanes>> KeyPlanesForm::Build(const storage::Segment& segment, LayerId layer,
                                                     const LayerSpec& spec,
                                                     const storage::LayerPin& pin) const {
  const PlaneSources sources(segment, layer, spec);
  std::vector<HeadPlanes> heads(pin.num_kv_heads());
  for (uint32_t head = 0; head < pin.num_kv_heads(); ++head) {
    if (pin.non_finite(head)) continue;
    ATTNDB_ASSIGN_OR_RETURN(heads[head].planes,
                            index::KeyPlanes::Build(sources.Of(head, pin.rows(head).k)));
  }
  return heads;
}

Result<std::vector<HeadPlanes>> KeyPlanesForm::Read(const storage::Companion& companion,
                                                    const storage::Segment& segment,
                                                    LayerId layer) const {
  return ReadHeads<HeadPlanes>(
      segment, layer, [&](uint32_t head) { return ReadHead(companion, segment, layer, head); });
}

Status KeyPlanesForm::Write(const storage::Segment& segment, const ModelSpec& spec, ThreadPool*,
                            storage::CompanionWriter* writer,
                            const std::function<void(LayerId)>& layer_done) const {
  const auto begin = [&](LayerId layer) {
    return [&segment, layer, writer, sources = PlaneSources(segment, layer, spec.layers[layer])](
               uint32_t head) { return WriteHead(segment, layer, head, sources, writer); };
  };
  return WriteHeads(segment, spec, kNumParts, writer, begin, layer_done);
}

}  // namespace attndb::internal
