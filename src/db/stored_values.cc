#include "db/stored_values.h"

#include <string>
#include <utility>

#include "db/stored_heads.h"
#include "kernels/layout.h"
#include "storage/vfs/format.h"

namespace attndb::internal {
namespace {

// As key planes: shorter segments are read whole.
constexpr uint64_t kMinTokens = 256;

CompanionKind KindOf(uint32_t bits) {
  if (bits == 0) return {"value_means", {"values"}, kMinTokens, {}};
  return {
      "value_planes_8", {"values"}, kMinTokens, /*former=*/{"value_planes_2", "value_planes_4"}};
}

}  // namespace

ValuePlanesForm::ValuePlanesForm(uint32_t bits) : bits_(bits), kind_(KindOf(bits)) {}

index::ValueShape ValuePlanesForm::ShapeOf(const storage::Segment& segment, LayerId layer) const {
  const uint32_t head_dim = segment.shape().layers[layer].v_head_dim;
  return {segment.num_tokens(), kernels::RowElements(head_dim), bits_};
}

uint64_t ValuePlanesForm::MemoryBytes(const storage::Segment& segment, LayerId layer) const {
  // Read in whole granules: a part begins and ends inside one.
  constexpr uint64_t kEnds = uint64_t{2} * storage::kGranuleBytes;
  return segment.shape().layers[layer].num_kv_heads *
         (index::ValuePlanes::BytesFor(ShapeOf(segment, layer)) + kEnds);
}

uint64_t ValuePlanesForm::ObjectBytes(const storage::Segment& segment) const {
  return SumOverHeads(segment, [&](LayerId layer) {
    return index::ValuePlanes::BytesFor(ShapeOf(segment, layer));
  });
}

Result<std::vector<HeadValues>> ValuePlanesForm::Build(const storage::Segment& segment,
                                                       LayerId layer, const LayerSpec& /*spec*/,
                                                       const storage::LayerPin& pin) const {
  const index::ValueShape shape = ShapeOf(segment, layer);
  std::vector<HeadValues> heads(pin.num_kv_heads());
  for (uint32_t head = 0; head < pin.num_kv_heads(); ++head) {
    if (pin.non_finite(head)) continue;
    const kernels::RowsView values = {pin.rows(head).v, shape.num_elements, shape.num_elements,
                                      segment.shape().dtype};
    ATTNDB_ASSIGN_OR_RETURN(heads[head].planes,
                            index::ValuePlanes::Build(values, shape.num_tokens, bits_));
  }
  return heads;
}

Result<std::vector<HeadValues>> ValuePlanesForm::Read(const storage::Companion& companion,
                                                      const storage::Segment& segment,
                                                      LayerId layer) const {
  std::vector<HeadValues> heads(segment.shape().layers[layer].num_kv_heads);
  for (uint32_t head = 0; head < heads.size(); ++head) {
    const storage::PartPlace place = {layer, head, 0};
    if (companion.num_rows(place) == 0) continue;
    ATTNDB_ASSIGN_OR_RETURN(storage::ObjectRange range, companion.ReadPart(place));
    ATTNDB_ASSIGN_OR_RETURN(
        heads[head].planes,
        index::ValuePlanes::Parse(range.bytes, ShapeOf(segment, layer),
                                  storage::Describe(companion.name()) + ", layer " +
                                      std::to_string(layer) + ", head " + std::to_string(head)));
    heads[head].bytes = std::move(range.buffer);
  }
  return heads;
}

Status ValuePlanesForm::WriteHead(const storage::Segment& segment, LayerId layer, uint32_t kv_head,
                                  storage::CompanionWriter* writer) const {
  ATTNDB_ASSIGN_OR_RETURN(const storage::HeadRows rows, segment.ReadValues(layer, kv_head));
  const index::ValueShape shape = ShapeOf(segment, layer);
  const kernels::RowsView values = {rows.data(), shape.num_elements, shape.num_elements,
                                    segment.shape().dtype};
  ATTNDB_ASSIGN_OR_RETURN(const index::ValuePlanes planes,
                          index::ValuePlanes::Build(values, shape.num_tokens, bits_));
  return writer->AddPart(planes.bytes(), planes.num_tokens());
}

Status ValuePlanesForm::Write(const storage::Segment& segment, const ModelSpec& spec, ThreadPool*,
                              storage::CompanionWriter* writer,
                              const std::function<void(LayerId)>& layer_done) const {
  const auto begin = [&](LayerId layer) {
    return [this, &segment, layer, writer](uint32_t head) {
      return WriteHead(segment, layer, head, writer);
    };
  };
  return WriteHeads(segment, spec, 1, writer, begin, layer_done);
}

}  // namespace attndb::internal
