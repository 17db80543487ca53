#include "derived/blocks_kind.h"

#include <cstdint>
#include <string>
#include <utility>

#include "derived/kinds.h"
#include "derived/owned_head.h"
#include "derived/plane_sources.h"
#include "index/coarse/block_keys.h"

namespace attndb::derived {
namespace {

constexpr uint32_t kPageKeys[] = {8, 16, 32, 64};
constexpr uint32_t kBlockKeys[] = {32, 64, 128, 256, 512};
constexpr uint32_t kRepresentatives[] = {1, 2, 4, 8};

// Both take one pass over the keys.
class BlocksKind final : public Kind {
 public:
  BlocksKind(const std::string& name, const index::BlockForm& form)
      : Kind({.use = name,
              .object = name,
              .parts = {"rows"},
              .min_tokens = 2048}),  // The same as for other indexes.
        form_(form) {}

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer, const LayerSpec&) const override {
    const index::BlockShape shape = ShapeOf(run, layer);
    return shape.fits_kernels() ? shape.total_bytes() : 0;
  }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    // Rows that are too long for kernels are read exactly.
    if (!ShapeOf(*source.run, source.layer).fits_kernels()) return BuiltHead();
    const index::PlaneSource& keys = *source.keys;
    ATTNDB_ASSIGN_OR_RETURN(
        index::BlockKeys blocks,
        index::BlockKeys::Build(
            {.keys = keys.keys, .num_keys = keys.num_keys, .queries = keys.queries}, form_));
    const auto owned = Own(std::move(blocks));
    return BuiltHead{HeadOf(owned), {owned->object.bytes()}, owned->object.num_keys()};
  }

  Result<Head> Parse(HeadParts parts) const override {
    ATTNDB_ASSIGN_OR_RETURN(index::BlockKeys blocks,
                            index::BlockKeys::Parse(parts.parts[0].bytes,
                                                    ShapeOf(*parts.run, parts.layer), parts.name));
    return HeadOf(Own(std::move(blocks), std::move(parts.parts)));
  }

 private:
  index::BlockShape ShapeOf(const storage::KvRun& run, LayerId layer) const {
    return {.form = form_,
            .num_keys = run.num_tokens(),
            .num_channels = KeyElements(run, layer),
            .key_dtype = run.shape().dtype};
  }
  static Head HeadOf(std::shared_ptr<const OwnedHead<index::BlockKeys>> owned) {
    return {.index = &owned->object, .owner = owned};
  }

  const index::BlockForm form_;
};

}  // namespace

std::vector<std::unique_ptr<const Kind>> MakeBlocksKinds() {
  std::vector<std::unique_ptr<const Kind>> kinds;
  for (const uint32_t keys : kPageKeys) {
    kinds.push_back(std::make_unique<const BlocksKind>(
        std::string(kQuest) + "_" + std::to_string(keys),
        index::BlockForm{.summary = index::BlockSummary::kBounds, .block_keys = keys}));
  }
  for (const uint32_t keys : kBlockKeys) {
    for (const uint32_t representatives : kRepresentatives) {
      kinds.push_back(std::make_unique<const BlocksKind>(
          std::string(kInfLlm) + "_" + std::to_string(keys) + "x" + std::to_string(representatives),
          index::BlockForm{.summary = index::BlockSummary::kRepresentatives,
                           .block_keys = keys,
                           .num_representatives = representatives}));
    }
  }
  return kinds;
}

}  // namespace attndb::derived
