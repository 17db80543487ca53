#include "derived/wave_kind.h"

#include <cstdint>
#include <string>
#include <utility>

#include "derived/kinds.h"
#include "derived/owned_head.h"
#include "derived/plane_sources.h"
#include "index/coarse/wave_keys.h"

namespace attndb::derived {
namespace {

constexpr uint32_t kClusterKeys[] = {16, 32, 64};

class WaveKind final : public Kind {
 public:
  WaveKind(const std::string& name, const index::KMeansOptions& options)
      : Kind({.use = name,
              .object = name,
              .parts = {"clusters"},
              .min_tokens = 2048,  // The same as for other indexes.
              .slow = true}),
        options_(options) {}

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer, const LayerSpec&) const override {
    return ShapeOf(run, layer).max_bytes();
  }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    const index::PlaneSource& keys = *source.keys;
    const size_t channels = ShapeOf(*source.run, source.layer).value_channels;
    ATTNDB_ASSIGN_OR_RETURN(
        const storage::HeadRows values,
        source.run->ReadRows(source.layer, source.kv_head, storage::RowPart::kValues));
    ATTNDB_ASSIGN_OR_RETURN(
        index::WaveKeys clusters,
        index::WaveKeys::Build({.keys = keys.keys,
                                .values = {values.data(), channels, channels, keys.keys.dtype},
                                .num_keys = keys.num_keys},
                               options_));
    const auto owned = Own(std::move(clusters));
    return BuiltHead{HeadOf(owned), {owned->object.bytes()}, owned->object.num_keys()};
  }

  Result<Head> Parse(HeadParts parts) const override {
    ATTNDB_ASSIGN_OR_RETURN(
        index::WaveKeys clusters,
        index::WaveKeys::Parse(parts.parts[0].bytes, ShapeOf(*parts.run, parts.layer), parts.name));
    return HeadOf(Own(std::move(clusters), std::move(parts.parts)));
  }

 private:
  index::WaveShape ShapeOf(const storage::KvRun& run, LayerId layer) const {
    return {.num_keys = run.num_tokens(),
            .key_channels = KeyElements(run, layer),
            .value_channels = kernels::RowElements(run.shape().layers[layer].v_head_dim),
            .dtype = run.shape().dtype,
            .cluster_keys = static_cast<uint32_t>(options_.cluster_keys)};
  }
  static Head HeadOf(std::shared_ptr<const OwnedHead<index::WaveKeys>> owned) {
    return {.index = &owned->object, .sums = &owned->object.sums(), .owner = owned};
  }

  const index::KMeansOptions options_;
};

}  // namespace

std::vector<std::unique_ptr<const Kind>> MakeWaveKinds(size_t num_rounds) {
  std::vector<std::unique_ptr<const Kind>> kinds;
  for (const uint32_t keys : kClusterKeys) {
    index::KMeansOptions options = {.cluster_keys = keys};
    if (num_rounds != 0) options.num_rounds = num_rounds;
    kinds.push_back(
        std::make_unique<const WaveKind>(std::string(kWave) + "_" + std::to_string(keys), options));
  }
  return kinds;
}

}  // namespace attndb::derived
