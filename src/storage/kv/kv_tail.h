// K and V of a session's unsealed tokens, in memory.
//
// Each layer is a list of blocks of 256 tokens; in a block, the K rows of a head are contiguous and
// 64-byte aligned, and so are its V rows. The last block may be smaller and grows by copying, so
// that a tail needs at most 1.2 times its KV (plus 16 tokens a layer). Forks share blocks; a fork
// copies a shared block before it writes to it.
//
// Joined:  the first 4,096 tokens that are complete in a layer, and each 4,096 after them, may be
//          joined into one run, from which objects can be derived. Nothing is written to them any
//          more.
//
//   ATTNDB_ASSIGN_OR_RETURN(const AppendSlot slot, tail.BeginAppend(layer, n));
//   for (const AppendPiece& piece : slot.pieces)
//     convert rows [piece.first_row, + piece.num_rows) of each head to piece.k(head),
//     piece.v(head);
//   tail.CommitAppend(layer);
//
// Units:   rows as kv_layout.h: strides KRowBytes and VRowBytes; padding is the caller's to zero.
// Errors:  kResourceExhausted (budget or system memory); the tail is then unchanged.
// Threads: thread-compatible. Forks may be used by different threads at the same time.
#ifndef ATTNDB_STORAGE_KV_KV_TAIL_H_
#define ATTNDB_STORAGE_KV_KV_TAIL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/aligned_buffer.h"
#include "storage/kv/kv_rows.h"
#include "storage/kv/memory_budget.h"

namespace attndb::storage {

// Writable rows of consecutive new tokens that lie in one block.
struct AppendPiece {
  uint64_t first_row = 0;  // Counted from the first new token.
  uint64_t num_rows = 0;
  // The first new row of head 0; the row of head h is h * head_stride bytes further.
  std::byte* k_base = nullptr;
  std::byte* v_base = nullptr;
  uint64_t head_stride = 0;

  std::byte* k(uint32_t kv_head) const { return k_base + kv_head * head_stride; }
  std::byte* v(uint32_t kv_head) const { return v_base + kv_head * head_stride; }
};

struct AppendSlot {
  std::span<const AppendPiece> pieces;  // In token order; valid until the next call on the tail.
};

// One run of kJoinedTokens tokens of a layer, each head's rows together. The rows stay as they are
// as long as somebody holds this, whatever becomes of the tail.
struct JoinedTokens {
  std::shared_ptr<const void> memory;
  std::vector<KvRows> rows;  // By kv head; into memory.
};

class KvTail {
 public:
  static constexpr uint32_t kBlockTokens = 256;
  static constexpr uint32_t kJoinedTokens = 4096;

  // `budget` must outlive the tail and its forks. REQUIRES: ValidateShape(shape).ok().
  KvTail(std::shared_ptr<const KvShape> shape, MemoryBudget* budget);
  ~KvTail();
  KvTail(KvTail&&) noexcept;
  KvTail& operator=(KvTail&&) noexcept;

  // A tail with the same tokens; blocks are shared until one side writes to them.
  KvTail Fork();

  // Makes room for num_rows new tokens of a layer; at most one append is in progress. Nothing is
  // visible before CommitAppend; another BeginAppend, Crop or Reset forgets it.
  Result<AppendSlot> BeginAppend(LayerId layer, uint64_t num_rows);
  void CommitAppend(LayerId layer);

  // Notes that NaN or inf was appended; stays set until Reset, even if that token is cropped.
  void SetNonFinite(LayerId layer, uint32_t kv_head);
  bool non_finite(LayerId layer, uint32_t kv_head) const;

  uint64_t num_tokens(LayerId layer) const;
  // Tokens complete in every layer.
  uint64_t num_tokens() const;

  // Joins the layer's next kJoinedTokens tokens. REQUIRES: CanJoin(layer).
  Status Join(LayerId layer);
  bool CanJoin(LayerId layer) const;
  uint64_t num_joined(LayerId layer) const;
  // REQUIRES: i < num_joined(layer).
  JoinedTokens joined(LayerId layer, uint64_t i) const;

  // Keeps the first num_tokens tokens of every layer that has more. The last block keeps its
  // capacity; a joined run that loses some of its tokens is no run any more.
  void Crop(uint64_t num_tokens);
  void Reset();
  // Forgets the first num_tokens tokens of every layer; the others are copied, into runs from their
  // first token on. What was joined, or was not finite, counts as such until all is forgotten.
  // REQUIRES: each layer has that many, and no append is in progress.
  Status DropFirst(uint64_t num_tokens);

  // Rows of K and V in token order. Valid until the next append to this layer, Join, Crop or Reset.
  std::span<const KvRows> runs(LayerId layer, uint32_t kv_head) const;

  const KvShape& shape() const { return *shape_; }
  // Bytes of all blocks, including those that forks share.
  uint64_t memory_bytes() const;

 private:
  struct Memory;
  struct Block;
  struct BlockRef;
  struct Layer;

  // Makes block `block` exist, belong to this tail alone and have room for num_needed tokens,
  // keeping its first num_kept; num_after = tokens that the layer will have.
  Status MakeWritable(LayerId layer, uint64_t block, uint64_t num_kept, uint64_t num_needed,
                      uint64_t num_after);
  Result<std::shared_ptr<Block>> NewBlock(LayerId layer, uint64_t capacity) const;
  // Copies the first num_tokens tokens of all heads.
  void CopyTokens(LayerId layer, Block& from, uint64_t num_tokens, Block* to) const;
  // Appends the layer's tokens from num_skipped on to the same layer of `to`.
  Status CopyRest(LayerId layer, uint64_t num_skipped, KvTail* to) const;
  void UpdateRuns(LayerId layer, uint64_t first_block);
  void CropLayer(LayerId layer, uint64_t num_tokens);

  std::shared_ptr<const KvShape> shape_;
  MemoryBudget* budget_;
  std::vector<Layer> layers_;
  std::vector<AppendPiece> pieces_;
  LayerId pending_layer_ = 0;
  uint64_t num_pending_ = 0;
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_KV_TAIL_H_
