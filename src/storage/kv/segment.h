// The read side of a sealed segment: an immutable run of tokens of a context, with K, V and sampled
// queries.
//
// No byte is returned before its granule's CRC was equal to the manifest's. No segment is opened
// before the manifest matched the root hash in the catalog, and the header matched the catalog's
// record. There is no mmap: a page could change or vanish after its verification.
//
// Damage counts by granule. A context that needs only the first tokens of a segment, because it
// shares a beginning with others, is served as long as these tokens are sound.
//
// Errors:  kCorruption names file, place, expected and found, at every read of the damaged place.
//          kUnsupported: a newer format version, or an unknown section kind that must be
//          understood. kIoError, kNotFound: the system can't read. kResourceExhausted: the memory
//          budget, with numbers; drop pins and retry.
// Threads: Segment is thread-safe; many threads may read a LayerPin and its views.
#ifndef ATTNDB_STORAGE_KV_SEGMENT_H_
#define ATTNDB_STORAGE_KV_SEGMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/aligned_buffer.h"
#include "common/check.h"
#include "common/mutex.h"
#include "common/sha256.h"
#include "storage/io/file_system.h"
#include "storage/kv/kv_rows.h"
#include "storage/kv/kv_run.h"
#include "storage/kv/memory_budget.h"
#include "storage/kv/query_rows.h"
#include "storage/kv/segment_header.h"
#include "storage/kv/segment_layout.h"
#include "storage/vfs/object_reader.h"
#include "storage/vfs/section_table.h"

namespace attndb::storage {

namespace internal {

// One verified layer of a segment, in memory.
struct LayerData final : public Resident {
  using Group = std::shared_ptr<ResidentGroup>;
  LayerData(Reservation reservation, Group group)
      : Resident(std::move(reservation), std::move(group)) {}

  AlignedBuffer buffer;
  std::vector<KvRows> rows;      // By kv head; into buffer. Rows of sound tokens only.
  std::vector<bool> non_finite;  // By kv head.
  Status damage;                 // The damage behind these tokens.
};

}  // namespace internal

// Keeps a layer in memory. Cheap to copy; keeps the bytes, not the segment, alive.
class LayerPin {
 public:
  LayerPin() = default;  // Pins nothing.

  uint32_t num_kv_heads() const { return static_cast<uint32_t>(data_->rows.size()); }
  std::span<const KvRows> heads() const { return data_->rows; }

  // Rows of the segment's tokens, from the first to the last that is sound.
  // REQUIRES: kv_head < num_kv_heads().
  const KvRows& rows(uint32_t kv_head) const {
    ATTNDB_DCHECK(kv_head < num_kv_heads());
    return data_->rows[kv_head];
  }

  // True if a K or V element of this head is NaN or inf.
  bool non_finite(uint32_t kv_head) const { return data_->non_finite[kv_head]; }

 private:
  friend class Segment;
  explicit LayerPin(std::shared_ptr<const internal::LayerData> data) : data_(std::move(data)) {}

  std::shared_ptr<const internal::LayerData> data_;
};

// The catalog's record of a segment. Open compares all of it with the files.
struct SegmentExpectation {
  SegmentIdentity identity;
  Sha256Digest root_hash{};  // SHA-256 of the manifest, as WriteSegment returned it.
};

// The damage of a segment, and the number of its first tokens that are sound in all layers.
struct SegmentDamage {
  Status status;  // Ok: nothing.
  uint64_t num_sound = 0;
};

class Segment final : public KvRun {
  // Lets only the factory construct.
  struct Key {
    explicit Key() = default;
  };

 public:
  // Reads and verifies manifest, header and section table; no K or V yet. Holds the file for
  // reading as `file_system` does (file_pool.h opens it when it is read). `file_system` and
  // `budget` must outlive the segment.
  static Result<std::shared_ptr<Segment>> Open(FileSystem* file_system, const std::string& dir,
                                               const SegmentExpectation& expected,
                                               MemoryBudget* budget);
  Segment(Key, const SegmentExpectation& expected, MemoryBudget* budget);
  ~Segment() override;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  uint64_t id() const override { return expected_.identity.segment_id; }
  uint64_t num_tokens() const override { return expected_.identity.num_tokens; }
  int64_t first_position() const override { return expected_.identity.first_position; }
  bool is_sealed() const override { return true; }
  const KvShape& shape() const override { return expected_.identity.shape; }
  const Sha256Digest& root_hash() const { return expected_.root_hash; }
  // Bytes of both files.
  uint64_t file_bytes() const { return object_->length() + object_->manifest_bytes(); }

  // Known from the section table, without reading the layer. REQUIRES: layer and kv_head exist.
  bool non_finite(LayerId layer, uint32_t kv_head) const override;

  // The first num_first tokens. REQUIRES: num_first <= num_tokens().
  Result<std::vector<TokenId>> ReadTokens(uint64_t num_first) const;
  Result<std::vector<TokenId>> ReadTokens() const { return ReadTokens(num_tokens()); }

  // Reads K and V of `layer` into memory, if they are not there, and holds them there; fails with
  // kCorruption if the first num_first tokens are not all sound. Of several threads that ask first,
  // one reads and the others wait.
  // REQUIRES: layer < shape().layers.size(); num_first <= num_tokens().
  Result<LayerPin> PinLayer(LayerId layer, uint64_t num_first) ATTNDB_EXCLUDES(mutex_);
  Result<LayerPin> PinLayer(LayerId layer) { return PinLayer(layer, num_tokens()); }
  // Whether the layer is in memory now. REQUIRES: the layer exists.
  bool IsInMemory(LayerId layer) const ATTNDB_EXCLUDES(mutex_);

  Result<LayerQueries> ReadQueries(LayerId layer) const override;
  // Reads and verifies only the granules in which these rows lie. REQUIRES: layer and kv_head
  // exist; tokens.begin <= tokens.end <= num_tokens().
  Result<HeadRows> ReadRows(LayerId layer, uint32_t kv_head, RowPart part, TokenRange tokens) const;
  Result<HeadRows> ReadRows(LayerId layer, uint32_t kv_head, RowPart part) const override {
    return ReadRows(layer, kv_head, part, {0, num_tokens()});
  }

  // Reads and verifies every byte of the object from disk, to the end, whatever it finds. Keeps
  // nothing in memory. `progress` may be null; it is called about every MiB with the bytes done,
  // and false stops with kCancelled. status: also kIoError, kNotFound; no token is sound then.
  // Damage in sampled queries harms no token. The manifest is the one that Open verified.
  SegmentDamage FindDamage(
      const std::function<bool(uint64_t bytes_done)>& progress = nullptr) const;

  // Bytes of the layers that are in memory now.
  uint64_t resident_bytes() const ATTNDB_EXCLUDES(mutex_);

 private:
  struct LayerSlot {
    std::weak_ptr<const internal::LayerData> data;  // The budget and the pins keep it alive.
    bool loading = false;
  };

  Status ReadHeaderAndTable();
  // Returns the layer if its first num_first tokens are in memory, or once another thread has
  // loaded it. Else returns null: the caller must load the layer and call EndLoad, with null after
  // a failure.
  std::shared_ptr<const internal::LayerData> BeginLoad(LayerId layer, uint64_t num_first)
      ATTNDB_EXCLUDES(mutex_);
  void EndLoad(LayerId layer, const std::shared_ptr<const internal::LayerData>& data)
      ATTNDB_EXCLUDES(mutex_);
  Result<std::shared_ptr<const internal::LayerData>> LoadLayer(LayerId layer) const;
  // How many first rows of the section lie in no damaged granule.
  uint64_t CountSound(const SectionEntry& section, const GranuleDamage& damage) const;
  uint64_t CountSound(LayerId layer, const GranuleDamage& damage) const;

  // Constant after Open.
  const SegmentExpectation expected_;
  const SegmentLayout layout_;
  MemoryBudget* const budget_;
  const std::shared_ptr<ResidentGroup> resident_group_ = std::make_shared<ResidentGroup>();
  std::unique_ptr<const ObjectReader> object_;
  std::vector<SectionEntry> sections_;

  // Latching order: mutex_ before the budget's. No I/O is waited for under mutex_.
  mutable Mutex mutex_;
  CondVar loaded_;
  std::vector<LayerSlot> slots_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_SEGMENT_H_
