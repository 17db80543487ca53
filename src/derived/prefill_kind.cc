#include "derived/prefill_kind.h"

#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "derived/kinds.h"
#include "derived/owned_head.h"
#include "derived/plane_sources.h"
#include "index/prefill/prefill_ranking.h"

namespace attndb::derived {
namespace {

// Takes a pass over the keys for each few of the queries that weigh them.
class PrefillKind final : public Kind {
 public:
  PrefillKind()
      : Kind({.use = std::string(kStaticPrefill),
              .object = "static_prefill_1",
              .parts = {"ranking"},
              .min_tokens = 256}) {}  // The same as for key planes.

  uint64_t HeadBytes(const storage::KvRun& run, LayerId, const LayerSpec&) const override {
    return index::PrefillRanking::BytesFor(run.num_tokens());
  }

  Result<BuiltHead> Build(const HeadSource& source) const override {
    const index::PlaneSource& keys = *source.keys;
    if (keys.queries.num_rows() == 0) return BuiltHead();
    const LayerSpec& spec = *source.spec;
    std::span<const float> denominators = spec.denominator_logits;
    if (!denominators.empty()) {
      const uint32_t group = spec.group_size();
      denominators = denominators.subspan(size_t{source.kv_head} * group, group);
    }
    ATTNDB_ASSIGN_OR_RETURN(index::PrefillRanking ranking,
                            index::PrefillRanking::Build({.keys = keys.keys,
                                                          .num_keys = keys.num_keys,
                                                          .queries = keys.queries,
                                                          .logit = {spec.scale, spec.soft_cap},
                                                          .denominator_logits = denominators}));
    const auto owned = Own(std::move(ranking));
    return BuiltHead{HeadOf(owned), {owned->object.bytes()}, owned->object.rows().size()};
  }

  Result<Head> Parse(HeadParts parts) const override {
    ATTNDB_ASSIGN_OR_RETURN(
        index::PrefillRanking ranking,
        index::PrefillRanking::Parse(parts.parts[0].bytes, parts.run->num_tokens(), parts.name));
    return HeadOf(Own(std::move(ranking), std::move(parts.parts)));
  }

 private:
  static Head HeadOf(std::shared_ptr<const OwnedHead<index::PrefillRanking>> owned) {
    return {.ranking = &owned->object.ranking(), .owner = owned};
  }
};

}  // namespace

std::unique_ptr<const Kind> MakePrefillKind() { return std::make_unique<const PrefillKind>(); }

}  // namespace attndb::derived
