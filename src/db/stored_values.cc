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

index::ValueShape ShapeOf(const storage::Segment& segment, LayerId layer) {
  return {segment.num_tokens(), kernels::RowElements(segment.shape().layers[layer].v_head_dim)};
}

kernels::RowsView RowsOf(const storage::Segment& segment, LayerId layer, const std::byte* v) {
  const size_t num_elements = ShapeOf(segment, layer).num_elements;
  return {v, num_elements, num_elements, segment.shape().dtype};
}

}  // namespace

template <>
const CompanionKind& ValueForm<index::ValuePlanes>::kind() const {
  static const CompanionKind kKind = {"value_codes_1",
                                      {"values"},
                                      kMinTokens,
                                      /*former=*/
                                      {"value_planes_2", "value_planes_4", "value_planes_8"}};
  return kKind;
}

template <>
const CompanionKind& ValueForm<index::ValueMeans>::kind() const {
  static const CompanionKind kKind = {
      "value_means_1", {"values"}, kMinTokens, /*former=*/{"value_means"}};
  return kKind;
}

template <typename Object>
uint64_t ValueForm<Object>::MemoryBytes(const storage::Segment& segment, LayerId layer) const {
  // Read in whole granules: a part begins and ends inside one.
  constexpr uint64_t kEnds = uint64_t{2} * storage::kGranuleBytes;
  return segment.shape().layers[layer].num_kv_heads *
         (Object::BytesFor(ShapeOf(segment, layer)) + kEnds);
}

template <typename Object>
uint64_t ValueForm<Object>::ObjectBytes(const storage::Segment& segment) const {
  return SumOverHeads(segment,
                      [&](LayerId layer) { return Object::BytesFor(ShapeOf(segment, layer)); });
}

template <typename Object>
Result<std::vector<HeadValues<Object>>> ValueForm<Object>::Build(
    const storage::Segment& segment, LayerId layer, const LayerSpec& /*spec*/,
    const storage::LayerPin& pin) const {
  std::vector<Head> heads(pin.num_kv_heads());
  for (uint32_t head = 0; head < pin.num_kv_heads(); ++head) {
    if (pin.non_finite(head)) continue;
    const kernels::RowsView values = RowsOf(segment, layer, pin.rows(head).v);
    ATTNDB_ASSIGN_OR_RETURN(heads[head].object, Object::Build(values, segment.num_tokens()));
  }
  return heads;
}

template <typename Object>
Result<std::vector<HeadValues<Object>>> ValueForm<Object>::Read(const storage::Companion& companion,
                                                                const storage::Segment& segment,
                                                                LayerId layer) const {
  return ReadHeads<Head>(segment, layer, [&](uint32_t kv_head) -> Result<Head> {
    Head head;
    const storage::PartPlace place = {layer, kv_head, 0};
    if (companion.num_rows(place) == 0) return head;
    ATTNDB_ASSIGN_OR_RETURN(storage::ObjectRange range, companion.ReadPart(place));
    ATTNDB_ASSIGN_OR_RETURN(head.object, Object::Parse(range.bytes, ShapeOf(segment, layer),
                                                       storage::Describe(companion.name()) +
                                                           ", layer " + std::to_string(layer) +
                                                           ", head " + std::to_string(kv_head)));
    head.bytes = std::move(range.buffer);
    return head;
  });
}

template <typename Object>
Status ValueForm<Object>::Write(const storage::Segment& segment, const ModelSpec& spec, ThreadPool*,
                                storage::CompanionWriter* writer,
                                const std::function<void(LayerId)>& layer_done) const {
  const auto begin = [&](LayerId layer) {
    return [&segment, layer, writer](uint32_t head) -> Status {
      ATTNDB_ASSIGN_OR_RETURN(const storage::HeadRows rows, segment.ReadValues(layer, head));
      ATTNDB_ASSIGN_OR_RETURN(
          const Object object,
          Object::Build(RowsOf(segment, layer, rows.data()), segment.num_tokens()));
      return writer->AddPart(object.bytes(), object.num_tokens());
    };
  };
  return WriteHeads(segment, spec, 1, writer, begin, layer_done);
}

template class ValueForm<index::ValuePlanes>;
template class ValueForm<index::ValueMeans>;

}  // namespace attndb::internal
