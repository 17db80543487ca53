#include "planner/builtin_plans.h"

#include <algorithm>
#include <limits>

#include "planner/plan.h"

namespace attndb::planner {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kMaxK = 1u << 30;
constexpr double kMaxError = 0.5;
constexpr double kMaxTpotMs = 1e6;
constexpr double kMaxGib = 1e6;
constexpr uint32_t kAutoBits = 4;

QueryType TopK() {
  return {
      .name = "topk",
      .kind = QueryKind::kSearch,
      .arguments = {{.key = "k", .min = 1, .max = kMaxK, .whole = true},
                    {.key = "ratio",
                     .min = 0,
                     .max = 1,
                     .above_min = true,
                     .error = "ratio must be a number in (0, 1]"},
                    {.key = "budget", .words = {"even", "pyramid"}, .choice = 1, .optional = true}},
      .needs = "topk needs k or ratio, for example topk(k=512)",
      .by_index = true,
      .predict_selected = [](const LayerPlan& plan, double middle) {
        return plan.Given("ratio") ? plan.Get("ratio") * middle : std::min(plan.Get("k"), middle);
      }};
}

QueryType Dipr() {
  return {.name = "dipr",
          .kind = QueryKind::kSearch,
          .arguments =
              {{.key = "beta", .min = 0, .max = kNoLimit, .error = "beta must be a number >= 0"},
               {.key = "alpha",
                .min = 0,
                .max = 1,
                .above_min = true,
                .error = "alpha must be a number in (0, 1]"}},
          .needs = "dipr needs beta or alpha, for example dipr(alpha=0.012)",
          .by_index = true,
          .is_range = true};
}

QueryType Mass() {
  return {.name = "mass",
          .kind = QueryKind::kSearch,
          .arguments = {{.key = "p",
                         .min = 0,
                         .max = 1,
                         .above_min = true,
                         .error = "p must be a number in (0, 1]"}},
          .needs = "mass needs p, for example mass(p=0.99)"};
}

QueryType Auto() {
  return {.name = "auto",
          .kind = QueryKind::kAuto,
          .arguments = {{.key = "error",
                         .min = 0,
                         .max = kMaxError,
                         .above_min = true,
                         .error = "error must be a number in (0, 0.5]"},
                        {.key = "tpot",
                         .min = 0,
                         .max = kMaxTpotMs,
                         .above_min = true,
                         .error = "tpot must be a number of milliseconds in (0, 1000000]"},
                        {.key = "rules", .words = {"alaya"}},
                        {.key = "memory",
                         .min = 0,
                         .max = kMaxGib,
                         .above_min = true,
                         .error = "memory must be a number of GiB in (0, 1000000]",
                         .choice = 1,
                         .optional = true}},
          .needs = "auto needs error or tpot, for example auto(error=0.01), or rules=alaya",
          .default_bits = kAutoBits};
}

// The work of a scan of all keys, or of their planes.
SearchWork FlatWork(const SearchSize& size) {
  SearchWork work;
  work.scanned_keys = size.bits == 0 ? 0.0 : std::min(size.plane_tokens, size.middle_tokens);
  work.exact_keys = size.fixed_tokens + size.middle_tokens - work.scanned_keys;
  work.compared_keys = size.middle_tokens;
  // Candidates of the estimates are scored exactly: somewhat more than are selected in the end.
  work.reranked_keys = work.scanned_keys > 0 ? size.expected_tokens : 0.0;
  return work;
}

// The work of a search of clusters, or a draw by them: as measured on SmolLM2's heads at 65,536
// tokens, at the default effort. Heads differ; observations correct it.
SearchWork ClusteredWork(const SearchSize& size) {
  constexpr double kClusterKeys = 64;
  constexpr double kVisited = 0.12;
  constexpr double kDrawnFrom = 0.4;
  constexpr double kReranked = 1.1;  // A row serves the whole group.
  SearchWork work;
  const double indexed = std::min(size.plane_tokens, size.middle_tokens);
  const double means = indexed / kClusterKeys;
  work.exact_keys = size.fixed_tokens + size.middle_tokens - indexed + means;
  work.scanned_keys = (size.draws ? kDrawnFrom : kVisited) * indexed;
  work.compared_keys = 2 * means + work.scanned_keys;
  work.reranked_keys = kReranked * size.expected_tokens;
  return work;
}

IndexType Clustered() {
  constexpr double kMaxEffort = 100;
  return {.name = "clustered",
          .bits = {0},
          .arguments = {{.key = "effort",
                         .min = 0,
                         .max = kMaxEffort,
                         .above_min = true,
                         .error = "effort must be a number in (0, 100]"}},
          .predict = ClusteredWork,
          .finds_by = "clusters",
          .effort_key = "effort",
          .scan_bits = 4,
          .draws = IndexType::Draws::kByEstimates};
}

// The work of a walk: as measured on SmolLM2's heads, at the default window.
SearchWork GraphWork(const SearchSize& size) {
  constexpr double kRowsPerFound = 8;  // Rows of K that the group reads for each key found.
  constexpr double kHops = 60;
  SearchWork work;
  const double indexed = std::min(size.plane_tokens, size.middle_tokens);
  work.exact_keys = size.fixed_tokens + size.middle_tokens - indexed;
  work.reranked_keys = std::min(indexed, kRowsPerFound * size.expected_tokens) / size.group_size;
  work.compared_keys = work.reranked_keys * size.group_size;
  work.hops = kHops / size.group_size;
  return work;
}

// Arguments that only one of the two walks has.
std::string WalkConflict(const LayerPlan& plan) {
  const bool is_published = plan.Word("walk") == "diprs";
  if (is_published && !plan.Is("dipr")) {
    return "walk=diprs finds a range: it needs dipr, for example dipr(beta=50,index=graph,"
           "walk=diprs)";
  }
  if (is_published && plan.Given("beam_width")) return "walk=diprs has no beam_width: give l0";
  if (!is_published && plan.Given("l0")) return "l0 is of walk=diprs: give that too, or beam_width";
  return "";
}

// Built as attndb prefers, or as RoarGraph was published: walked alike.
IndexType Graph(std::string name) {
  constexpr double kMaxWidth = 1u << 20;
  constexpr double kListThreshold = 256;
  return {.name = name,
          .bits = {0},
          .arguments =
              {{.key = "beam_width", .min = 1, .max = kMaxWidth, .whole = true},
               {.key = "walk", .words = {"group", "diprs"}},
               {.key = "l0", .min = 0, .max = kMaxWidth, .whole = true, .fallback = kListThreshold},
               {.key = "expand", .words = {"hidden", "all"}},
               {.key = "graphs", .words = {"group", "head"}}},
          .predict = GraphWork,
          .finds_by = name,
          .settings = {"graphs"},
          .effort_key = "beam_width",
          .conflict = WalkConflict};
}

// The work of a search by product codes. The factor is the time of a scan of codes over that of
// 4-bit planes: 131,072 keys of 128 channels for 4 q heads took 125 us at 8 subspaces of 8 bits
// (Intel Xeon with VBMI), where the planes have 66 bytes a key.
SearchWork PqWork(const SearchSize& size) {
  constexpr double kOfPlanes = 0.4;
  SearchWork work;
  const double indexed = std::min(size.plane_tokens, size.middle_tokens);
  work.exact_keys = size.fixed_tokens + size.middle_tokens - indexed;
  work.scanned_keys = kOfPlanes * indexed;
  work.compared_keys = 2 * indexed;
  work.reranked_keys = size.expected_tokens / size.group_size;  // One selection serves the group.
  return work;
}

IndexType Pq() {
  constexpr double kMaxEffort = 100;
  return {.name = "pq",
          .bits = {0},
          .arguments = {{.key = "m",
                         .min = 2,
                         .whole = true,
                         .values = {2, 4, 8, 16, 32},
                         .error = "m, the number of subspaces, must be 2, 4, 8, 16 or 32",
                         .fallback = 8},
                        {.key = "b",
                         .min = 4,
                         .whole = true,
                         .values = {4, 6, 8},
                         .error = "b, the bits of a subspace, must be 4, 6 or 8",
                         .fallback = 8},
                        {.key = "effort",
                         .min = 1,
                         .max = kMaxEffort,
                         .error = "effort must be a number from 1 to 100",
                         .fallback = 1}},
          .predict = PqWork,
          .finds_by = "pq",
          .settings = {"m", "b"},
          .effort_key = "effort",
          .scan_bits = 4,
          .draws = IndexType::Draws::kByCodes,
          .scores_all = true};
}

// The work of a search of blocks. A block of `block_keys` keys has a row with the bytes of
// `row_keys` keys.
SearchWork BlocksWork(const SearchSize& size, double block_keys, double row_keys) {
  SearchWork work;
  const double indexed = std::min(size.plane_tokens, size.middle_tokens);
  const double blocks = indexed / block_keys;
  work.exact_keys = size.fixed_tokens + size.middle_tokens - indexed + row_keys * blocks;
  work.compared_keys = 2 * blocks + size.expected_tokens;
  work.reranked_keys = size.expected_tokens / size.group_size;  // One selection serves the group.
  return work;
}

// `effort` of indexes that select whole blocks: blocks are read until they hold effort * k keys.
Argument BlocksEffort() {
  constexpr double kMaxEffort = 1000;
  return {.key = "effort",
          .min = 1,
          .max = kMaxEffort,
          .error = "effort must be a number from 1 to 1000",
          .fallback = 1};
}

IndexType Quest() {
  constexpr double kPage = 16;  // Priced at the default.
  return {.name = "quest",
          .bits = {0},
          .arguments = {{.key = "page",
                         .min = 1,
                         .whole = true,
                         .values = {8, 16, 32, 64},
                         .error = "page, the tokens of a page, must be 8, 16, 32 or 64",
                         .fallback = kPage},
                        BlocksEffort()},
          // The largest and the smallest of each channel.
          .predict = [](const SearchSize& size) { return BlocksWork(size, kPage, 2); },
          .finds_by = "quest",
          .settings = {"page"},
          .effort_key = "effort",
          .best_only = true};
}

IndexType InfLlm() {
  constexpr double kBlock = 128;
  return {.name = "infllm",
          .bits = {0},
          .arguments = {{.key = "block",
                         .min = 1,
                         .whole = true,
                         .values = {32, 64, 128, 256, 512},
                         .error = "block, the tokens of a block, must be 32, 64, 128, 256 or 512",
                         .fallback = kBlock},
                        {.key = "representatives",
                         .min = 1,
                         .whole = true,
                         .values = {1, 2, 4, 8},
                         .error = "representatives, the tokens that stand for a block, must be 1, "
                                  "2, 4 or 8",
                         .fallback = 4},
                        BlocksEffort()},
          // A mean in float32, of keys of 16 bits.
          .predict = [](const SearchSize& size) { return BlocksWork(size, kBlock, 2); },
          .finds_by = "infllm",
          .settings = {"block", "representatives"},
          .effort_key = "effort",
          .best_only = true};
}

IndexType Wave() {
  constexpr double kCluster = 16;
  return {.name = "wave",
          .bits = {0},
          .arguments = {{.key = "cluster",
                         .min = 1,
                         .whole = true,
                         .values = {16, 32, 64},
                         .error = "cluster, the mean tokens of a cluster, must be 16, 32 or 64",
                         .fallback = kCluster},
                        BlocksEffort()},
          .predict = [](const SearchSize& size) { return BlocksWork(size, kCluster, 1); },
          .finds_by = "wave",
          .settings = {"cluster"},
          .effort_key = "effort",
          .best_only = true,
          .estimated_share = 0.232};
}

}  // namespace

PlanRegistry BuiltinPlans() {
  PlanRegistry registry;
  registry.AddQuery({.name = "full", .kind = QueryKind::kFull});
  registry.AddQuery({.name = "window", .kind = QueryKind::kWindow});
  registry.AddQuery(TopK());
  registry.AddQuery(Dipr());
  registry.AddQuery(Mass());
  registry.AddQuery(Auto());
  registry.AddIndex({.name = "flat", .bits = {0, 8, 4}, .predict = FlatWork});
  registry.AddIndex(Clustered());
  registry.AddIndex(Graph("graph"));
  registry.AddIndex(Pq());
  registry.AddIndex(Quest());
  registry.AddIndex(InfLlm());
  registry.AddIndex(Graph("roargraph"));
  registry.AddIndex(Wave());
  // The papers' settings: [Alaya] 9.1, [RA] 4.1, [PQC] 4.1 (LongBench). The first two leave out the
  // index: without an index=... that follows, they score all keys. New tokens of a session are
  // attended to ([Alaya] 7.2, [RA] App. C). [PQC] Alg. 1 waits for a layer's codes before the
  // layer's second token. InfLLM 4.1: 16 blocks of 128 tokens, 128 initial ones and 4,096 local
  // ones. RetroInfer, as in its code: 1.8 % of the clusters, 4 initial tokens and 64 local ones,
  // and 23.2 % estimated; new tokens are attended to until they are clustered.
  registry.AddPreset({"alaya", "dipr(alpha=0.012,sink=128,window=512,tail=exact)"});
  registry.AddPreset({"retrieval_attention", "topk(k=100,sink=128,window=512,tail=exact)"});
  registry.AddPreset({"pqcache", "topk(ratio=0.2,index=pq,m=2,b=6,await=1)"});
  registry.AddPreset({"infllm", "topk(k=2048,index=infllm,sink=128,window=4096)"});
  registry.AddPreset({"retroinfer", "topk(ratio=0.018,index=wave,sink=4,window=64,tail=exact)"});
  return registry;
}

}  // namespace attndb::planner
