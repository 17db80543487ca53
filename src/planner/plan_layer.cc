#include "planner/plan_layer.h"

#include <algorithm>
#include <cmath>

#include "planner/settle.h"

namespace attndb::planner {
namespace {

// Rows that SmolLM2's heads read for an error of 0.01 at 8,192 tokens. That they grow with the
// square root of the tokens is assumed, and corrected head by head.
constexpr double kBaseRows = 460;
constexpr double kBaseError = 0.01;
constexpr double kBaseTokens = 8192;
constexpr double kExactShare = 0.2;  // Share of these rows whose K is read, too.
// Share of these rows whose weights are small enough for codes of V.
constexpr double kLightShare = 0.75;
constexpr double kLeastRows = 64;  // Least rows that a draw aims at.
// A row draws again if its error is this many times the mean's error: rows of a head differ.
constexpr double kTolerated = 3;

// Draws by codes: the reduction of a head's error that one more token must bring, over the cube of
// the wanted mean error. With this rule the errors of heads are proportional to their difficulty to
// the power of 2/3, which is the least mean error for a number of tokens. SmolLM2's heads then come
// to about the wanted error at 8,192 tokens. The rule does not contain the length, so it holds at
// other lengths. A head's largest error is below the tolerated one.
constexpr double kTrade = 15;
constexpr double kLargest = 0.8;

// Share of the error that the tokens missed by an index may cause: errors add up as squares.
constexpr double kMissedShare = 0.5;

// The gain that a method must promise to replace `full`, or a scan. It then stays while it is no
// slower: predictions are not exact, and switching back and forth helps no call.
constexpr double kWorthScanning = 0.9;
constexpr double kWorthIndex = 0.95;

// A method is tried this often before a prediction that it is slower is believed, unless it is much
// slower. A first observation may be this much worse.
constexpr uint32_t kFirstTrials = 2;
constexpr double kMuchSlower = 2;
constexpr double kHopeless = 8;

// Later on a head explores after this many calls, and each time after four times as many. Earlier
// calls may have been disturbed, and trials become ever cheaper.
constexpr uint64_t kFirstExplored = 16;
constexpr double kSlowestExplored = 4;

// Clusters of a context of fewer tokens than these save nothing that their building would be worth:
// q heads of a group look in different clusters, so that one q head breaks even near 22,000 tokens
// and three near 50,000 (bench/run.sh break_even). What more than three do is left to measurement.
uint64_t LeastIndexTokens(uint32_t group_size) { return 12288 * (1 + std::min(group_size, 3u)); }

double FixedTokens(const LayerQuestion& question) {
  const ChainFacts& chain = question.chain;
  return static_cast<double>(question.plan->NumFixed(chain.num_tokens, chain.num_stored_seen));
}

double Middle(const LayerQuestion& question) {
  return static_cast<double>(question.chain.num_tokens) - FixedTokens(question);
}

// Tokens whose runs satisfy `has`.
template <typename F>
uint64_t CountTokens(const LayerQuestion& question, const F& has) {
  uint64_t num_tokens = 0;
  for (const RunFacts& run : question.chain.runs) num_tokens += has(run) ? run.num_tokens : 0;
  return num_tokens;
}

// An index by which heads may draw without scoring all keys; or null. Only if the plan leaves this
// open, and the context is long enough to repay the build.
const IndexType* DrawingIndex(const LayerQuestion& question) {
  const LayerPlan& plan = *question.plan;
  if (!plan.Draws() || !plan.default_index) return nullptr;
  const uint64_t num_tokens =
      CountTokens(question, [](const RunFacts& run) { return run.may_have_planes; });
  if (num_tokens < LeastIndexTokens(question.spec->group_size())) return nullptr;
  for (const auto& index : question.registry->indexes()) {
    if (index->draws == IndexType::Draws::kByEstimates && index->HasBits(plan.kind, plan.bits))
      return index.get();
  }
  return nullptr;
}

HeadShape ShapeOf(const LayerQuestion& question) {
  constexpr uint32_t kRowMultiple = 16;  // Rows are padded to it (kernels/layout.h).
  const auto padded = [](uint32_t dim) {
    const uint32_t num_multiples = (dim + kRowMultiple - 1) / kRowMultiple;
    return static_cast<double>(num_multiples * kRowMultiple);
  };
  const auto element = static_cast<double>(DTypeBytes(question.kv_dtype));
  HeadShape shape;
  shape.group_size = question.spec->group_size();
  shape.channels = padded(question.spec->head_dim);
  shape.k_bytes = shape.channels * element;
  shape.v_channels = padded(question.spec->v_head_dim);
  shape.v_bytes = shape.v_channels * element;
  shape.num_threads = question.num_threads;
  return shape;
}

// Price of `full` for one row of q.
Cost PriceFull(const LayerQuestion& question, double tokens, const MachineConstants& machine) {
  const auto rows = static_cast<double>(question.num_rows);
  const Cost cost = FullCost(ShapeOf(question), tokens, rows, machine);
  return {cost.bytes / rows, cost.ns / rows};
}

// A group that draws together reads fewer rows than its q heads alone: SmolLM2's groups of three
// draw 0.64 to 0.55 of the rows. Larger groups are assumed to continue this.
double DistinctShare(const LayerQuestion& question) {
  constexpr double kExponent = -0.42;
  return question.plan->Draws() ? std::pow(question.spec->group_size(), kExponent) : 1.0;
}

// The cost of a head whose tokens the index finds.
Cost PriceSparse(const LayerQuestion& question, const IndexType& index, const HeadExecution& head,
                 const MachineConstants& machine) {
  const LayerPlan& plan = *question.plan;
  const bool finds = !index.finds_by.empty();
  const double middle = Middle(question);
  // An index that is asked for will be there soon, and is priced as if it were.
  const auto plane_tokens = static_cast<double>(CountTokens(
      question, [&](const RunFacts& run) { return finds ? run.may_have_planes : run.has_planes; }));
  SearchSize size;
  size.group_size = question.spec->group_size();
  size.middle_tokens = middle;
  size.plane_tokens = std::clamp(plane_tokens - static_cast<double>(plan.sink), 0.0, middle);
  size.fixed_tokens = FixedTokens(question);
  size.bits = plan.Finds() ? index.scan_bits : plan.bits;
  size.draws = plan.Draws();
  size.expected_tokens = size.draws ? kExactShare * head.rows : std::max(0.0, head.selected);
  const HeadShape shape = ShapeOf(question);
  SparseRead read = {index.predict(size), size.bits, size.fixed_tokens + head.rows,
                     DistinctShare(question)};
  if (plan.value_bits != 0) read.coded = kLightShare;
  if (plan.ReadsMeans()) {
    constexpr double kBlock = 64;     // Tokens that share a mean (kernels/value_planes.h).
    constexpr double kMeanBytes = 2;  // Bytes of a mean's channel: bfloat16.
    read.value_bytes = middle * shape.v_channels * kMeanBytes / kBlock;
  }
  if (plan.EstimatesByClusters()) {
    constexpr double kCluster = 16;  // Tokens that share a mean of keys and one of values.
    read.value_bytes = middle / kCluster *
                       (shape.k_bytes / shape.group_size + plan.EstimatedShare() * shape.v_bytes);
  }
  return SparseCost(shape, read, machine);
}

// Critical tokens, and critical tokens with samples, of a query that is as predictable as that.
void ExpectRows(const LayerQuestion& question, const HeadStatistics& learned, double aimed_error,
                HeadExecution* head) {
  const LayerPlan& plan = *question.plan;
  const double middle = Middle(question);
  head->selected = learned.selected;
  if (!plan.Draws()) {
    if (plan.query->predict_selected) head->selected = plan.query->predict_selected(plan, middle);
    head->rows_expected = std::min(middle, std::max(0.0, head->selected) + plan.samples);
    head->rows = head->rows_expected;
    return;
  }
  const double rows = kBaseRows * kBaseError / aimed_error * std::sqrt(middle / kBaseTokens);
  head->rows_expected = std::min(middle, rows);
  head->rows = std::min(middle, head->rows_expected * learned.rows.value());
  head->aimed_error = aimed_error;
  head->budget = {std::max(kLeastRows, head->rows), kTolerated * aimed_error,
                  kTrade * std::pow(aimed_error, 3) / learned.spread.value(),
                  kLargest * kTolerated * aimed_error / learned.spread.value()};
}

// The layer's methods, simplest first.
struct Methods {
  std::array<const IndexType*, kNumMethods> index{};  // Null: the head has no such choice.
  bool has_full = false;
  bool index_is_asked = false;  // It needs no proof that it is worth it.

  bool Has(size_t method) const { return method == 0 ? has_full : index[method] != nullptr; }
};

Methods MethodsOf(const LayerQuestion& question, bool learns) {
  const LayerPlan& plan = *question.plan;
  Methods methods;
  methods.has_full = plan.kind == QueryKind::kAuto;
  methods.index_is_asked = plan.UsesIndex();
  const auto asked = static_cast<size_t>(plan.UsesIndex() ? Method::kIndex : Method::kScan);
  methods.index[asked] = plan.index;
  // Codes so small misjudge the weights of some heads: these draw by a scan of planes.
  if (learns && plan.DrawsByCodes() && plan.ReadsPlanes()) {
    methods.index[static_cast<size_t>(Method::kScan)] = question.registry->FindIndex("flat");
  }
  if (const IndexType* const drawing = learns ? DrawingIndex(question) : nullptr) {
    methods.index[static_cast<size_t>(Method::kIndex)] = drawing;
  }
  return methods;
}

bool MayIndex(const LayerQuestion& question, const Methods& methods,
              const HeadStatistics& learned) {
  return methods.index_is_asked || learned.missed <= kMissedShare * question.plan->error;
}

Method Cheapest(const LayerQuestion& question, const Methods& methods,
                const HeadStatistics& learned, const HeadExecution& head) {
  size_t best = methods.has_full ? 0 : kNumMethods;
  for (size_t i = 1; i < kNumMethods; ++i) {
    if (!methods.Has(i)) continue;
    const auto method = static_cast<Method>(i);
    const bool is_proven = methods.index_is_asked || learned.time[i].count() > 0;
    if (method == Method::kIndex && !(is_proven && MayIndex(question, methods, learned))) continue;
    const bool did = learned.last == method && learned.time[i].count() > 0;
    const double worth = did ? 1.0 : best == 0 ? kWorthScanning : kWorthIndex;
    if (best == kNumMethods || head.ns[i] < worth * head.ns[best]) best = i;
  }
  return static_cast<Method>(best);
}

bool IsDue(uint64_t num_calls) {
  uint64_t due = kFirstExplored;
  while (due < num_calls) due *= 4;
  return due == num_calls;
}

// The method that the head runs to learn its time: the preferred one, or another.
Method Explored(const LayerQuestion& question, const Methods& methods,
                const HeadStatistics& learned, const HeadExecution& head, bool is_due) {
  const auto preferred = static_cast<size_t>(head.preferred);
  for (size_t i = 0; i < kNumMethods; ++i) {
    if (i == preferred || !methods.Has(i)) continue;
    if (static_cast<Method>(i) == Method::kIndex && !MayIndex(question, methods, learned)) continue;
    const bool is_new = learned.time[i].count() < kFirstTrials &&
                        head.cost[i].ns < kMuchSlower * head.cost[preferred].ns &&
                        head.ns[i] < kHopeless * head.ns[preferred];
    if (is_new || (is_due && head.ns[i] < kSlowestExplored * head.ns[preferred])) {
      return static_cast<Method>(i);
    }
  }
  return head.preferred;
}

Reason ReasonOf(const LayerQuestion& question, const HeadExecution& head) {
  if (question.plan->kind != QueryKind::kAuto) return Reason::kAsAsked;
  if (head.method != head.preferred) return Reason::kExplores;
  if (head.method == Method::kFull) return Reason::kFullCheaper;
  const bool is_choice = head.method == Method::kIndex && !question.plan->UsesIndex();
  return is_choice ? Reason::kIndexCheaper : Reason::kScanCheaper;
}

HeadExecution PlanHead(const LayerQuestion& question, const Methods& methods,
                       const LearnedState& learned, uint32_t kv_head,
                       const MachineConstants& machine) {
  const HeadStatistics statistics = learned.Informed(question.layer, kv_head);
  HeadExecution head;
  ExpectRows(question, statistics, question.plan->error * learned.aim(), &head);
  head.cost[0] = PriceFull(question, static_cast<double>(question.chain.num_tokens), machine);
  for (size_t i = 1; i < kNumMethods; ++i) {
    if (methods.Has(i)) head.cost[i] = PriceSparse(question, *methods.index[i], head, machine);
  }
  for (size_t i = 0; i < kNumMethods; ++i) {
    head.ns[i] = head.cost[i].ns * statistics.time[i].value();
  }
  if (!question.chain.IsFinite(kv_head)) {
    head.reason = Reason::kNonFinite;
    return head;
  }
  head.preferred = Cheapest(question, methods, statistics, head);
  head.method = head.preferred;
  if (question.explores && learned.learns() && question.plan->kind == QueryKind::kAuto) {
    const bool is_due = IsDue(learned.num_calls(question.layer));
    head.method = Explored(question, methods, statistics, head, is_due);
  }
  head.index = methods.index[static_cast<size_t>(head.method)];
  head.reason = ReasonOf(question, head);
  return head;
}

// A head of a layer in which a rule or the plan leaves no choice.
HeadExecution PlanSettled(const LayerQuestion& question, bool has_rule,
                          const MachineConstants& machine) {
  const bool is_window = !has_rule && question.plan->kind == QueryKind::kWindow;
  auto tokens = static_cast<double>(question.chain.num_tokens);
  if (question.spec->sliding_window != 0) {
    tokens = std::min<double>(tokens, question.spec->sliding_window);
  } else if (is_window) {
    tokens = FixedTokens(question);
  }
  HeadExecution head;
  head.method = head.preferred = is_window ? Method::kScan : Method::kFull;
  head.reason = has_rule ? Reason::kRule : Reason::kAsAsked;
  head.cost.fill(PriceFull(question, tokens, machine));
  for (size_t i = 0; i < kNumMethods; ++i) head.ns[i] = head.cost[i].ns;
  return head;
}

// If a rule or every head's own choice says so, the layer is full for one reason.
void Summarize(std::string_view rule, LayerExecution* execution) {
  const std::vector<HeadExecution>& heads = execution->heads;
  const auto is_full = [](const HeadExecution& head) { return head.method == Method::kFull; };
  execution->all_full = std::ranges::all_of(heads, is_full);
  execution->full_reason = rule;
  if (!rule.empty() || !execution->all_full) return;
  const auto finite = std::ranges::find_if(
      heads, [](const HeadExecution& head) { return head.reason != Reason::kNonFinite; });
  if (finite != heads.end()) execution->full_reason = TextOf(finite->reason);
}

// Fills in how each kv head runs under the question's plan, which is settled.
void PlanHeads(const LayerQuestion& question, const LearnedState& learned,
               const MachineConstants& machine, LayerExecution* execution) {
  const std::string_view rule = RuleFor(question);
  const uint32_t num_heads = question.spec->num_kv_heads;
  execution->plan = *question.plan;
  execution->priced = rule.empty() && question.plan->Chooses();
  execution->offers_index = false;
  execution->heads.clear();
  if (!execution->priced) {
    execution->heads.resize(num_heads, PlanSettled(question, !rule.empty(), machine));
  } else {
    const Methods methods = MethodsOf(question, learned.learns());
    execution->offers_index = methods.Has(1) && methods.Has(2);
    for (uint32_t head = 0; head < num_heads; ++head) {
      execution->heads.push_back(PlanHead(question, methods, learned, head, machine));
      if (!execution->offers_index || execution->heads[head].method != Method::kIndex) continue;
      execution->plan.index = execution->heads[head].index;
      execution->plan.default_index = false;
    }
  }
  Summarize(rule, execution);
}

}  // namespace

std::string_view TextOf(Reason reason) {
  switch (reason) {
    case Reason::kNonFinite:
      return "NaN or Inf: full";
    case Reason::kFullCheaper:
      return "reading everything is cheaper: full";
    case Reason::kScanCheaper:
      return "cheaper than full";
    case Reason::kIndexCheaper:
      return "an index is cheaper than a scan";
    case Reason::kExplores:
      return "seemed slower; measured again";
    case Reason::kAsAsked:
    case Reason::kRule:
      return "";
  }
  return "";
}

std::string_view LayerExecution::ReasonOf(uint32_t kv_head) const {
  const Reason reason = heads[kv_head].reason;
  if (reason == Reason::kRule) return full_reason;
  return reason == Reason::kAsAsked ? rule : TextOf(reason);
}

LayerPlan LayerExecution::PlanOf(uint32_t kv_head) const {
  LayerPlan of_head = plan;
  if (!offers_index || heads[kv_head].index == nullptr) return of_head;
  of_head.index = heads[kv_head].index;
  of_head.default_index = false;
  return of_head;
}

std::string_view RuleFor(const LayerQuestion& question) {
  const LayerPlan& plan = *question.plan;
  const std::string_view rule = plan.ReasonForFull(
      *question.spec, {question.num_rows, question.chain.num_tokens, question.chain.num_stored_seen,
                       question.dense_query_tokens});
  if (!rule.empty()) return rule;
  const bool is_short = question.chain.num_tokens <= kShortContextTokens;
  return plan.kind == QueryKind::kAuto && is_short ? "short context: full" : "";
}

void PlanLayer(const LayerQuestion& question, const LearnedState& learned,
               const MachineConstants& machine, LayerExecution* execution) {
  const LayerPlace place = {question.layer, question.num_layers, &question.chain};
  const SettledPlan settled = Settle(*question.plan, place, *question.registry);
  LayerQuestion asked = question;
  asked.plan = &settled.plan;
  PlanHeads(asked, learned, machine, execution);
  execution->rule = settled.rule;
}

std::string NotesOf(const LayerQuestion& question) {
  const ChainFacts& chain = question.chain;
  std::string text;
  const auto add = [&text](const std::string& note) { text += (text.empty() ? "" : "; ") + note; };
  if (chain.num_hidden > 0) {
    add("partial reuse: filtered to the first " + std::to_string(chain.num_stored) + " of " +
        std::to_string(chain.num_stored + chain.num_hidden) + " stored tokens");
  }
  if (chain.num_filtered > 0) {
    add("filter: " + std::to_string(chain.num_filtered) + " of " +
        std::to_string(chain.num_tokens + chain.num_filtered) + " tokens are hidden");
  }
  if (question.plan->kind == QueryKind::kRules) return text;  // They say the rest.
  const bool lacks_planes = CountTokens(question, [](const RunFacts& run) {
                              return run.may_have_planes && !run.has_planes;
                            }) > 0;
  if (question.plan->ReadsPlanes() && lacks_planes) {
    add("no key planes for some stored tokens (memory, or they are being built): scored exactly");
  }
  return text;
}

}  // namespace attndb::planner
