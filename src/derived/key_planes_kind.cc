#include "derived/key_planes_kind.h"

#include <utility>

#include "derived/kinds.h"
#include "derived/owned_head.h"
#include "derived/plane_sources.h"
#include "index/planes/key_planes.h"

namespace attndb::derived {
namespace {

class KeyPlanesKind final : public Kind {
 public:
  KeyPlanesKind()
      : Kind({.use = std::string(kKeyPlanes),
              .object = "key_planes_3",
              .parts = {"main", "low"},
              .min_tokens = 256,
              .former = {"key_planes", "key_planes_2"},
              .always = true}) {}

  uint64_t HeadBytes(const storage::KvRun& run, LayerId layer, const LayerSpec&) const override {
    return index::KeyPlanes::BytesFor(run.num_tokens(), KeyElements(run, layer));
  }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    ATTNDB_ASSIGN_OR_RETURN(index::KeyPlanes planes, index::KeyPlanes::Build(*source.keys));
    if (planes.num_keys() == 0) return BuiltHead();
    const auto owned = Own(std::move(planes));
    const index::PlaneParts& parts = owned->object.parts();
    return BuiltHead{HeadOf(owned), {parts.main, parts.low}, owned->object.num_keys()};
  }

  Result<Head> Parse(HeadParts parts) const override {
    const index::PlaneShape expected = {parts.run->num_tokens(),
                                        KeyElements(*parts.run, parts.layer)};
    ATTNDB_ASSIGN_OR_RETURN(index::KeyPlanes planes,
                            index::KeyPlanes::Parse({parts.parts[0].bytes, parts.parts[1].bytes},
                                                    expected, parts.name));
    return HeadOf(Own(std::move(planes), std::move(parts.parts)));
  }

 private:
  static Head HeadOf(std::shared_ptr<const OwnedHead<index::KeyPlanes>> owned) {
    return {.estimates = &owned->object, .owner = owned};
  }
};

}  // namespace

std::unique_ptr<const Kind> MakeKeyPlanesKind() { return std::make_unique<const KeyPlanesKind>(); }

}  // namespace attndb::derived
