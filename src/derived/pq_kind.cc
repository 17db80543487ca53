#include "derived/pq_kind.h"

#include <string>
#include <utility>

#include "derived/kinds.h"
#include "derived/owned_head.h"
#include "derived/plane_sources.h"
#include "index/pq/pq_index.h"

namespace attndb::derived {
namespace {

constexpr size_t kSubspaces[] = {2, 4, 8, 16, 32};
constexpr size_t kBits[] = {4, 6, 8};

std::string NameOf(const index::PqOptions& options) {
  return std::string(kPq) + "_" + std::to_string(options.num_subspaces) + "x" +
         std::to_string(options.bits);
}

// Stored rows have the two halves of the rotated channels one behind the other.
size_t NumPairs(const LayerSpec& spec) {
  return spec.rope.layout == RopeLayout::kNone ? 0 : spec.rope.DimsOf(spec.head_dim) / 2;
}

class PqKind final : public Kind {
 public:
  explicit PqKind(const index::PqOptions& options)
      : Kind({.use = NameOf(options),
              .object = NameOf(options),
              .parts = {"codes"},
              .min_tokens = 2048,  // Shorter runs are scored as fast as their codebook is made.
              .slow = true}),
        options_(options) {}

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer, const LayerSpec&) const override {
    const size_t elements = KeyElements(run, layer);
    if (elements % options_.num_subspaces != 0) return 0;
    return index::PqKeys::BytesFor(run.num_tokens(), elements, options_);
  }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    const index::PlaneSource& keys = *source.keys;
    // Rows that can't be divided into this many parts are read exactly.
    if (keys.keys.num_elements % options_.num_subspaces != 0) return BuiltHead();
    ATTNDB_ASSIGN_OR_RETURN(index::PqKeys codes,
                            index::PqKeys::Build({.keys = keys.keys,
                                                  .num_keys = keys.num_keys,
                                                  .queries = keys.queries,
                                                  .num_pairs = NumPairs(*source.spec)},
                                                 options_));
    if (codes.num_keys() == 0) return BuiltHead();
    const auto owned = Own(index::PqIndex(std::move(codes)));
    return BuiltHead{HeadOf(owned), {owned->object.keys().bytes()}, owned->object.num_keys()};
  }

  Result<Head> Parse(HeadParts parts) const override {
    ATTNDB_ASSIGN_OR_RETURN(
        index::PqKeys codes,
        index::PqKeys::Parse(parts.parts[0].bytes,
                             {parts.run->num_tokens(), KeyElements(*parts.run, parts.layer)},
                             parts.name));
    if (codes.num_subspaces() != options_.num_subspaces || codes.bits() != options_.bits) {
      return Status::Corruption(parts.name + ": codes of " + std::to_string(codes.num_subspaces()) +
                                " subspaces of " + std::to_string(codes.bits()) +
                                " bits, expected " + traits().use);
    }
    return HeadOf(Own(index::PqIndex(std::move(codes)), std::move(parts.parts)));
  }

 private:
  static Head HeadOf(std::shared_ptr<const OwnedHead<index::PqIndex>> owned) {
    return {.index = &owned->object, .owner = owned};
  }

  const index::PqOptions options_;
};

}  // namespace

std::vector<std::unique_ptr<const Kind>> MakePqKinds(size_t num_rounds) {
  std::vector<std::unique_ptr<const Kind>> kinds;
  for (const size_t num_subspaces : kSubspaces) {
    for (const size_t bits : kBits) {
      index::PqOptions options = {.num_subspaces = num_subspaces, .bits = bits};
      if (num_rounds != 0) options.num_rounds = num_rounds;
      kinds.push_back(std::make_unique<const PqKind>(options));
    }
  }
  return kinds;
}

}  // namespace attndb::derived
