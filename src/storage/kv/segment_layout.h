// The sections of a segment, with their order and their lengths.
//
// Order:   tokens; then for each layer: keys and values of head 0, of head 1, ...; queries and
//          query indices of head 0, of head 1, ... So K and V of a layer are one byte range, and
//          its sampled queries are the next one.
// Units:   bytes, rows; a section's index counts in that order.
// Errors:  kCorruption naming file, section, expected and found.
// Threads: a value.
#ifndef ATTNDB_STORAGE_KV_SEGMENT_LAYOUT_H_
#define ATTNDB_STORAGE_KV_SEGMENT_LAYOUT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "common/checked_math.h"
#include "storage/kv/kv_rows.h"
#include "storage/vfs/section_table.h"

namespace attndb::storage {

inline constexpr std::string_view kTokensSection = "tokens";         // int32 [num_tokens]
inline constexpr std::string_view kKeysSection = "keys";             // [num_tokens, KRowBytes]
inline constexpr std::string_view kValuesSection = "values";         // [num_tokens, VRowBytes]
inline constexpr std::string_view kQueriesSection = "queries";       // [n, KRowBytes]
inline constexpr std::string_view kQueryRefsSection = "query_refs";  // uint32 tokens[n], q_heads[n]

inline constexpr uint64_t kQueryRefBytes = 2 * sizeof(uint32_t);

struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
};

class SegmentLayout {
 public:
  // REQUIRES: ValidateShape(shape).ok().
  explicit SegmentLayout(const KvShape& shape);

  uint64_t num_sections() const { return num_sections_; }

  uint64_t tokens() const { return 0; }
  uint64_t keys(uint32_t layer, uint32_t head) const { return layers_[layer].first + 2 * head; }
  uint64_t values(uint32_t layer, uint32_t head) const { return keys(layer, head) + 1; }
  uint64_t queries(uint32_t layer, uint32_t head) const {
    return layers_[layer].first + 2 * (uint64_t{layers_[layer].num_heads} + head);
  }
  uint64_t query_refs(uint32_t layer, uint32_t head) const { return queries(layer, head) + 1; }

  // The bytes of K and V, or of sampled queries, of a layer in an object with these sections.
  ByteRange KvRange(const std::vector<SectionEntry>& sections, uint32_t layer) const;
  ByteRange QueryRange(const std::vector<SectionEntry>& sections, uint32_t layer) const;

 private:
  struct Layer {
    uint64_t first = 0;
    uint32_t num_heads = 0;
  };

  std::vector<Layer> layers_;
  uint64_t num_sections_ = 0;
};

// The sections of a segment of this shape, in order: kind, layer and head are set, flags are 0,
// places are not known yet.
std::vector<SectionEntry> SectionsOf(const KvShape& shape);

// Bytes on disk, manifest included, of a segment of this shape and length with num_queries[layer]
// [head] sampled queries. Nullopt: more than an object holds. REQUIRES: ValidateShape(shape).ok().
CheckedSize SegmentFileBytes(const KvShape& shape, uint64_t num_tokens,
                             const std::vector<std::vector<uint64_t>>& num_queries);

// Removes sections of unknown kind from a decoded table (kUnsupported if one may not be skipped).
// Checks that the rest are those of a segment of this shape and length.
Result<std::vector<SectionEntry>> CheckSections(std::vector<SectionEntry> found,
                                                const KvShape& shape, uint64_t num_tokens,
                                                std::string_view object);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_SEGMENT_LAYOUT_H_
