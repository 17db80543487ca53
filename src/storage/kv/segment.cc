#include "storage/kv/segment.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/kv/chain_source.h"
#include "storage/kv/kv_layout.h"
#include "storage/kv/turned_keys.h"
#include "storage/vfs/field_check.h"
#include "storage/vfs/format.h"

namespace attndb::storage {
namespace {

std::string LayerName(const ObjectReader& object, LayerId layer) {
  return object.description() + ", layer " + std::to_string(layer);
}

ObjectName NameOf(const SegmentIdentity& identity) { return {.segment_id = identity.segment_id}; }

bool HoldsFirst(const internal::LayerData& data, uint64_t num_tokens) {
  return data.rows[0].num_tokens >= num_tokens;
}

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

Segment::Segment(Key, const SegmentExpectation& expected, MemoryBudget* budget)
    : expected_(expected),
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
  const auto segment = std::make_shared<Segment>(Key(), expected, budget);
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

Result<std::vector<TokenId>> Segment::ReadTokens(uint64_t num_first) const {
  ATTNDB_CHECK(num_first <= num_tokens());
  const SectionEntry& section = sections_[layout_.tokens()];
  ATTNDB_ASSIGN_OR_RETURN(const ObjectRange data,
                          object_->Read(section.offset, num_first * sizeof(TokenId)));
  std::vector<TokenId> tokens(num_first);
  if (tokens.empty()) return tokens;
  std::memcpy(tokens.data(), data.bytes.data(), data.bytes.size());
  const auto negative = std::ranges::find_if(tokens, [](TokenId token) { return token < 0; });
  if (negative != tokens.end()) {
    return Mismatch(object_->description(), "token " + std::to_string(negative - tokens.begin()),
                    "0 or more", std::to_string(*negative));
  }
  return tokens;
}

Result<LayerPin> Segment::PinLayer(LayerId layer, uint64_t num_first) {
  ATTNDB_CHECK(layer < shape().layers.size() && num_first <= num_tokens());
  std::shared_ptr<const internal::LayerData> data = BeginLoad(layer, num_first);
  if (data != nullptr) return LayerPin(std::move(data));
  struct Load {  // Ends however it goes: with an exception, too, others must not wait for it.
    ~Load() { segment->EndLoad(layer, data); }
    Segment* const segment;
    const LayerId layer;
    std::shared_ptr<const internal::LayerData> data;
  } load{this, layer, nullptr};
  ATTNDB_ASSIGN_OR_RETURN(data, LoadLayer(layer));
  if (!HoldsFirst(*data, num_first)) return data->damage;
  load.data = std::move(data);
  budget_->Keep(load.data);
  return LayerPin(load.data);
}

std::shared_ptr<const internal::LayerData> Segment::BeginLoad(LayerId layer, uint64_t num_first) {
  MutexLock lock(&mutex_);
  LayerSlot& slot = slots_[layer];
  for (;;) {
    std::shared_ptr<const internal::LayerData> data = slot.data.lock();
    // Damaged bytes may be right by now, so they are read again.
    if (data != nullptr && HoldsFirst(*data, num_first)) {
      budget_->Touch(*data);
      return data;
    }
    if (!slot.loading) break;
    loaded_.Wait(&mutex_);
  }
  slot.loading = true;
  return nullptr;
}

void Segment::EndLoad(LayerId layer, const std::shared_ptr<const internal::LayerData>& data) {
  MutexLock lock(&mutex_);
  slots_[layer].loading = false;
  if (data != nullptr) {
    if (const auto before = slots_[layer].data.lock()) budget_->Drop(before.get());
    slots_[layer].data = data;
  }
  loaded_.NotifyAll();  // After a failure the next waiter tries, and reports for itself.
}

Result<std::shared_ptr<const internal::LayerData>> Segment::LoadLayer(LayerId layer) const {
  const ByteRange range = layout_.KvRange(sections_, layer);
  const std::string name = LayerName(*object_, layer);
  ATTNDB_ASSIGN_OR_RETURN(
      Reservation reservation,
      budget_->Reserve(object_->ReadBufferBytes(range.begin, range.size()), name));
  GranuleDamage damage;
  Result<ObjectRange> data = object_->Read(range.begin, range.size(), &damage);
  if (!data.ok()) return data.status().WithContext(name);

  auto result = std::make_shared<internal::LayerData>(std::move(reservation), resident_group_);
  const uint64_t num_sound = CountSound(layer, damage);
  if (num_sound < num_tokens()) result->damage = damage.first.WithContext(name);
  for (uint32_t head = 0; head < shape().layers[layer].num_kv_heads; ++head) {
    result->rows.push_back({.k = PlaceOf(sections_[layout_.keys(layer, head)], range, *data),
                            .v = PlaceOf(sections_[layout_.values(layer, head)], range, *data),
                            .num_tokens = num_sound});
    result->non_finite.push_back(non_finite(layer, head));
  }
  result->buffer = std::move(data->buffer);  // Moving keeps the rows' addresses.
  return std::shared_ptr<const internal::LayerData>(std::move(result));
}

uint64_t Segment::CountSound(const SectionEntry& section, const GranuleDamage& damage) const {
  const auto ends_behind = [&](uint64_t granule) {
    return granule + kGranuleBytes > section.offset;
  };
  const auto first = std::ranges::find_if(damage.offsets, ends_behind);
  if (first == damage.offsets.end() || *first >= section.offset + section.length) {
    return section.num_rows;
  }
  const uint64_t row_bytes = section.length / section.num_rows;
  return *first <= section.offset ? 0 : (*first - section.offset) / row_bytes;
}

uint64_t Segment::CountSound(LayerId layer, const GranuleDamage& damage) const {
  uint64_t num_sound = num_tokens();
  for (uint32_t head = 0; head < shape().layers[layer].num_kv_heads; ++head) {
    for (const uint64_t section : {layout_.keys(layer, head), layout_.values(layer, head)}) {
      num_sound = std::min(num_sound, CountSound(sections_[section], damage));
    }
  }
  return num_sound;
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
  const LayerShape& shape = this->shape().layers[layer];
  if (keys && shape.key_turns) {
    std::byte* const first = rows.buffer_.data() + (rows.data_ - rows.buffer_.data());
    TurnKeys(*shape.key_turns, RowFormats(shape, this->shape().dtype).At(part, first),
             first_position() + static_cast<int64_t>(tokens.begin), tokens.end - tokens.begin,
             first);
  }
  return rows;
}

SegmentDamage Segment::FindDamage(const std::function<bool(uint64_t bytes_done)>& progress) const {
  GranuleDamage damage;
  Status status = object_->VerifyAll(progress, &damage);
  if (status.ok() && damage.offsets.empty()) status = ReadTokens().status();
  if (!status.ok()) return {std::move(status), 0};
  const SectionEntry& tokens = sections_[layout_.tokens()];
  uint64_t num_sound = CountSound(tokens, damage);
  for (LayerId layer = 0; layer < shape().layers.size(); ++layer) {
    num_sound = std::min(num_sound, CountSound(layer, damage));
  }
  const bool in_front = !damage.offsets.empty() && damage.offsets.front() < tokens.offset;
  return {std::move(damage.first), in_front ? 0 : num_sound};
}

bool Segment::IsInMemory(LayerId layer) const {
  MutexLock lock(&mutex_);
  return !slots_[layer].data.expired();
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
