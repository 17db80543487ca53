#include "storage/kv/segment.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/kv/kv_layout.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"

namespace attndb::storage {
namespace {

std::string LayerName(const ObjectReader& object, LayerId layer) {
  return object.description() + ", layer " + std::to_string(layer);
}

ObjectName NameOf(const SegmentIdentity& identity) { return {.segment_id = identity.segment_id}; }

const std::byte* PlaceOf(const SectionEntry& section, const ByteRange& range,
                         const ObjectRange& data) {
  return data.bytes.data() + (section.offset - range.begin);
}

std::span<const uint32_t> RefsAt(const std::byte* place, uint64_t num_rows) {
  // Written from uint32_t arrays and 64-byte aligned.
  return {reinterpret_cast<const uint32_t*>(place), num_rows};
}

Status CheckTokenIndices(std::span<const uint32_t> tokens, uint64_t num_tokens,
                         std::string_view object) {
  uint32_t previous = 0;
  for (const uint32_t token : tokens) {
    if (token < previous || token >= num_tokens) {
      return Mismatch(object, "token index",
                      std::to_string(previous) + " to " + std::to_string(num_tokens - 1),
                      std::to_string(token));
    }
    previous = token;
  }
  return Status::Ok();
}

}  // namespace

Segment::Segment(Key, FileSystem* file_system, std::string dir, const SegmentExpectation& expected,
                 MemoryBudget* budget)
    : file_system_(file_system),
      dir_(std::move(dir)),
      expected_(expected),
      layout_(expected.identity.shape),
      budget_(budget),
      slots_(expected.identity.shape.layers.size()) {}

Segment::~Segment() {
  for (const LayerSlot& slot : slots_) {
    if (const auto data = slot.data.lock()) budget_->Drop(data.get());
  }
}

Result<std::shared_ptr<Segment>> Segment::Open(FileSystem* file_system, const std::string& dir,
                                               const SegmentExpectation& expected,
                                               MemoryBudget* budget) {
  ATTNDB_RETURN_IF_ERROR(ValidateShape(expected.identity.shape));
  const auto segment = std::make_shared<Segment>(Key(), file_system, dir, expected, budget);
  ATTNDB_ASSIGN_OR_RETURN(
      segment->object_,
      ObjectReader::Open(file_system, dir, NameOf(expected.identity), expected.root_hash));
  ATTNDB_RETURN_IF_ERROR(segment->ReadHeaderAndTable());
  return segment;
}

Status Segment::ReadHeaderAndTable() {
  const std::string& object = object_->description();
  const uint64_t length = object_->length();
  if (length < kSegmentHeaderBytes) {
    return Mismatch(object, "length", "at least " + std::to_string(kSegmentHeaderBytes),
                    std::to_string(length));
  }
  ATTNDB_ASSIGN_OR_RETURN(const ObjectRange page, object_->Read(0, kSegmentHeaderBytes));
  ATTNDB_ASSIGN_OR_RETURN(const SegmentHeader header, DecodeSegmentHeader(page.bytes, object));
  ATTNDB_RETURN_IF_ERROR(CheckIdentity(header.identity, expected_.identity, object));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "object_bytes", header.object_bytes, length));
  const uint64_t table_bytes = SectionTableBytes(header.num_sections);
  ATTNDB_RETURN_IF_ERROR(ExpectAtMost(object, "bytes of the section table", table_bytes,
                                      length - kSegmentHeaderBytes));

  ATTNDB_ASSIGN_OR_RETURN(const ObjectRange table, object_->Read(kSegmentHeaderBytes, table_bytes));
  const SectionBounds bounds{.begin = kSegmentHeaderBytes + table_bytes,
                             .end = length,
                             .packed = header.version == kPackedVersion};
  ATTNDB_ASSIGN_OR_RETURN(std::vector<SectionEntry> sections,
                          DecodeSectionTable(table.bytes, header.num_sections, bounds, object));
  ATTNDB_ASSIGN_OR_RETURN(sections_,
                          CheckSections(std::move(sections), shape(), num_tokens(), object));
  return Status::Ok();
}

bool Segment::non_finite(LayerId layer, uint32_t kv_head) const {
  const uint32_t flags = sections_[layout_.keys(layer, kv_head)].flags |
                         sections_[layout_.values(layer, kv_head)].flags;
  return (flags & kSectionNonFinite) != 0;
}

Result<std::vector<TokenId>> Segment::ReadTokens() const {
  const SectionEntry& section = sections_[layout_.tokens()];
  ATTNDB_ASSIGN_OR_RETURN(const ObjectRange data, object_->Read(section.offset, section.length));
  std::vector<TokenId> tokens(section.num_rows);
  std::memcpy(tokens.data(), data.bytes.data(), data.bytes.size());
  const auto negative = std::ranges::find_if(tokens, [](TokenId token) { return token < 0; });
  if (negative != tokens.end()) {
    return Mismatch(object_->description(), "token " + std::to_string(negative - tokens.begin()),
                    "0 or more", std::to_string(*negative));
  }
  return tokens;
}

Result<LayerPin> Segment::PinLayer(LayerId layer) {
  ATTNDB_CHECK(layer < shape().layers.size());
  MutexLock lock(&mutex_);
  LayerSlot& slot = slots_[layer];
  for (;;) {
    if (std::shared_ptr<const internal::LayerData> data = slot.data.lock()) {
      budget_->Touch(*data);
      return LayerPin(std::move(data));
    }
    if (!slot.loading) break;
    loaded_.Wait(&mutex_);
  }
  slot.loading = true;
  lock.Unlock();
  Result<std::shared_ptr<const internal::LayerData>> data = LoadLayer(layer);
  if (data.ok()) budget_->Keep(*data);
  lock.Lock();
  slot.loading = false;
  if (data.ok()) slot.data = *data;
  loaded_.NotifyAll();  // After a failure the next waiter tries, and reports for itself.
  if (!data.ok()) return std::move(data).status();
  return LayerPin(*std::move(data));
}

Result<std::shared_ptr<const internal::LayerData>> Segment::LoadLayer(LayerId layer) const {
  const ByteRange range = layout_.KvRange(sections_, layer);
  const std::string name = LayerName(*object_, layer);
  ATTNDB_ASSIGN_OR_RETURN(
      Reservation reservation,
      budget_->Reserve(object_->ReadBufferBytes(range.begin, range.size()), name));
  Result<ObjectRange> data = object_->Read(range.begin, range.size());
  if (!data.ok()) return data.status().WithContext(name);

  auto result = std::make_shared<internal::LayerData>(std::move(reservation), resident_group_);
  for (uint32_t head = 0; head < shape().layers[layer].num_kv_heads; ++head) {
    result->rows.push_back({.k = PlaceOf(sections_[layout_.keys(layer, head)], range, *data),
                            .v = PlaceOf(sections_[layout_.values(layer, head)], range, *data),
                            .num_tokens = num_tokens()});
    result->non_finite.push_back(non_finite(layer, head));
  }
  result->buffer = std::move(data->buffer);  // Moving keeps the rows' addresses.
  return std::shared_ptr<const internal::LayerData>(std::move(result));
}

Result<LayerQueries> Segment::ReadQueries(LayerId layer) const {
  ATTNDB_CHECK(layer < shape().layers.size());
  const ByteRange range = layout_.QueryRange(sections_, layer);
  const std::string name = "queries of " + LayerName(*object_, layer);
  LayerQueries queries;
  const uint32_t num_heads = shape().layers[layer].num_kv_heads;
  queries.rows_.resize(num_heads);
  if (range.size() == 0) return queries;
  ATTNDB_ASSIGN_OR_RETURN(
      queries.reservation_,
      budget_->Reserve(object_->ReadBufferBytes(range.begin, range.size()), name));
  Result<ObjectRange> data = object_->Read(range.begin, range.size());
  if (!data.ok()) return data.status().WithContext(name);
  for (uint32_t head = 0; head < num_heads; ++head) {
    const SectionEntry& refs = sections_[layout_.query_refs(layer, head)];
    const std::byte* const place = PlaceOf(refs, range, *data);
    queries.rows_[head] = {
        .q = PlaceOf(sections_[layout_.queries(layer, head)], range, *data),
        .tokens = RefsAt(place, refs.num_rows),
        .q_heads = RefsAt(place + refs.num_rows * sizeof(uint32_t), refs.num_rows)};
    ATTNDB_RETURN_IF_ERROR(CheckTokenIndices(queries.rows_[head].tokens, num_tokens(), name));
  }
  queries.buffer_ = std::move(data->buffer);
  return queries;
}

Result<HeadRows> Segment::ReadRows(LayerId layer, uint32_t kv_head, RowPart part,
                                   TokenRange tokens) const {
  ATTNDB_CHECK(tokens.begin <= tokens.end && tokens.end <= num_tokens());
  const bool keys = part == RowPart::kKeys;
  const SectionEntry& section =
      sections_[keys ? layout_.keys(layer, kv_head) : layout_.values(layer, kv_head)];
  const std::string name = (keys ? "keys of " : "values of ") + LayerName(*object_, layer);
  const uint64_t row_bytes = section.num_rows == 0 ? 0 : section.length / section.num_rows;
  const uint64_t begin = section.offset + tokens.begin * row_bytes;
  const uint64_t length = (tokens.end - tokens.begin) * row_bytes;
  HeadRows rows;
  ATTNDB_ASSIGN_OR_RETURN(rows.reservation_,
                          budget_->Reserve(object_->ReadBufferBytes(begin, length), name));
  Result<ObjectRange> data = object_->Read(begin, length);
  if (!data.ok()) return data.status().WithContext(name);
  rows.data_ = data->bytes.data();
  rows.buffer_ = std::move(data->buffer);  // Moving keeps the address.
  return rows;
}

Status Segment::VerifyAll(const std::function<bool(uint64_t bytes_done)>& progress) const {
  // Opened anew: the names in the directory, the manifest and the header are verified as well.
  ATTNDB_ASSIGN_OR_RETURN(const std::shared_ptr<Segment> fresh,
                          Open(file_system_, dir_, expected_, budget_));
  ATTNDB_RETURN_IF_ERROR(fresh->object_->VerifyAll(progress));
  ATTNDB_RETURN_IF_ERROR(fresh->ReadTokens().status());
  return Status::Ok();
}

uint64_t Segment::resident_bytes() const {
  MutexLock lock(&mutex_);
  uint64_t sum = 0;
  for (const LayerSlot& slot : slots_) {
    if (const auto data = slot.data.lock()) sum += data->buffer.size();
  }
  return sum;
}

}  // namespace attndb::storage
