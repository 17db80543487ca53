#include "planner/optimizer.h"

#include <algorithm>
#include <cmath>

namespace attndb::planner {
namespace {

// A search must promise this much before a head leaves `full`, or begins with it; and may lose so
// much before it goes back: predictions are no better, and flipping back and forth helps nobody.
constexpr double kWorthSearching = 0.9;
constexpr double kStillWorthSearching = 1.0;

// An index must save so much of a scan before a head draws by it. Clusters of a context of fewer
// tokens than these save nothing that their building would be worth: q heads of a group look in
// different clusters, so that one q head breaks even near 22,000 tokens and three near 50,000
// (bench/run.sh break_even). What more than three do is left to measurement.
constexpr double kWorthIndex = 0.95;
uint64_t LeastIndexTokens(uint32_t group_size) { return 12288 * (1 + std::min(group_size, 3u)); }

// Of the error, what an index may miss: errors of both add up as squares.
constexpr double kMissedShare = 0.5;

// A head that selects more than this share of the middle is broad.
constexpr double kBroadShare = 0.25;

// Rows that SmolLM2's heads read for an error of 0.01 at 8,192 tokens. That they grow with the
// square root of the tokens is assumed, and corrected head by head.
constexpr double kBaseRows = 460;
constexpr double kBaseError = 0.01;
constexpr double kBaseTokens = 8192;

// Of them, those whose K is read too.
constexpr double kExactShare = 0.2;

// ... and those that weigh so little that codes of V do.
constexpr double kLightRows = 0.75;

// Fewer than these are not worth less.
constexpr double kLeastRows = 64;

// q heads of a group that draw together read so many rows less than they would alone: SmolLM2's
// groups of three draw 0.64 to 0.55 of the rows. That it goes on so for larger groups is assumed.
double DistinctShare(const LayerQuestion& question) {
  constexpr double kExponent = -0.42;
  return question.plan->Draws() ? std::pow(question.spec->group_size(), kExponent) : 1.0;
}

// An error over that of the mean at which a row draws again: rows of a head differ.
constexpr double kTolerated = 3;

double Middle(const LayerQuestion& question) {
  return static_cast<double>(question.chain.num_tokens) - FixedTokens(question);
}

// Critical tokens, and critical tokens with samples, of a query that is as predictable as that.
void ExpectRows(const LayerQuestion& question, const HeadStatistics& head, HeadChoice* choice) {
  const LayerPlan& plan = *question.plan;
  const double middle = Middle(question);
  if (plan.kind == QueryKind::kAuto) {
    choice->rows_expected = std::min(middle, ExpectedRows(question.aimed_error, middle));
    choice->selected = head.selected;
    return;
  }
  choice->selected =
      plan.query->predict_selected ? plan.query->predict_selected(plan, middle) : head.selected;
  choice->rows_expected = std::min(middle, std::max(0.0, choice->selected) + plan.samples);
}

SearchSize SizeOf(const LayerQuestion& question, const HeadChoice& choice) {
  const double middle = Middle(question);
  SearchSize size;
  size.group_size = question.spec->group_size();
  size.middle_tokens = middle;
  size.plane_tokens = std::clamp(static_cast<double>(question.chain.num_plane_tokens) -
                                     static_cast<double>(question.plan->sink),
                                 0.0, middle);
  size.fixed_tokens = FixedTokens(question);
  size.bits = question.plan->Finds() ? question.plan->index->scan_bits : question.plan->bits;
  size.expected_tokens = std::max(0.0, choice.selected);
  size.draws = question.plan->Draws();
  if (size.draws) size.expected_tokens = kExactShare * choice.rows;
  return size;
}

// What is read of value planes and means.
void PredictValues(const LayerQuestion& question, const HeadShape& shape, SparseRead* read) {
  const LayerPlan& plan = *question.plan;
  if (plan.value_bits != 0) read->coded = kLightRows;
  if (!plan.ReadsMeans()) return;
  constexpr double kBlock = 64;     // Tokens that share a mean (kernels/value_planes.h),
  constexpr double kMeanBytes = 2;  // ... a bfloat16 a channel.
  read->value_bytes = Middle(question) * shape.v_channels * kMeanBytes / kBlock;
}

bool PrefersFull(const HeadChoice& choice, const MeanRatio& sparse_time, bool did) {
  const bool was_searched = sparse_time.count() > 0 && !did;
  const double worth = was_searched ? kStillWorthSearching : kWorthSearching;
  return choice.sparse_ns > worth * choice.full_ns;
}

}  // namespace

std::string_view TextOf(Reason reason) {
  switch (reason) {
    case Reason::kFullCheaper:
      return "reading everything is cheaper: full";
    case Reason::kBroadHead:
      return "a broad head: full";
    case Reason::kSparseCheaper:
      return "cheaper than full";
    case Reason::kTriedAgain:
      return "full seemed cheaper; measured again";
    case Reason::kMeasuresFull:
      return "measures what full takes";
    case Reason::kIndexCheaper:
      return "an index is cheaper than a scan";
    case Reason::kIndexTried:
      return "a scan seemed cheaper; measures an index";
    case Reason::kScanTried:
      return "an index seemed cheaper; measures a scan";
    case Reason::kAsAsked:
    case Reason::kRule:
      return "";
  }
  return "";
}

double FixedTokens(const LayerQuestion& question) {
  return static_cast<double>(std::min<uint64_t>(
      question.chain.num_tokens, uint64_t{question.plan->sink} + question.plan->window));
}

double ExpectedRows(double error, double middle_tokens) {
  return kBaseRows * kBaseError / error * std::sqrt(middle_tokens / kBaseTokens);
}

DrawBudget BudgetFor(double rows, double error) {
  return {std::max(kLeastRows, rows), kTolerated * error};
}

std::string_view RuleFor(const LayerQuestion& question) {
  const LayerPlan& plan = *question.plan;
  const std::string_view rule = plan.ReasonForFull(
      *question.spec, {question.num_rows, question.chain.num_tokens, question.dense_query_tokens});
  if (!rule.empty()) return rule;
  const bool is_short = question.chain.num_tokens <= kShortContextTokens;
  return plan.kind == QueryKind::kAuto && is_short ? "short context: full" : "";
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

HeadChoice PriceSettled(const LayerQuestion& question, const MachineConstants& machine) {
  const bool has_rule = !RuleFor(question).empty();
  auto tokens = static_cast<double>(question.chain.num_tokens);
  if (question.spec->sliding_window != 0) {
    tokens = std::min<double>(tokens, question.spec->sliding_window);
  } else if (!has_rule && question.plan->kind == QueryKind::kWindow) {
    tokens = FixedTokens(question);
  }
  const auto rows = static_cast<double>(question.num_rows);
  HeadChoice choice;
  choice.full = has_rule || question.plan->kind == QueryKind::kFull;
  choice.reason = has_rule ? Reason::kRule : Reason::kAsAsked;
  choice.full_cost = FullCost(ShapeOf(question), tokens, rows, machine);
  choice.full_cost.bytes /= rows;
  choice.full_cost.ns /= rows;
  choice.sparse_cost = choice.full_cost;
  choice.full_ns = choice.sparse_ns = choice.full_cost.ns;
  return choice;
}

HeadChoice ChooseHead(const LayerQuestion& question, const IndexType& index,
                      const HeadStatistics& head, const MachineConstants& machine) {
  const HeadShape shape = ShapeOf(question);
  const double fixed = FixedTokens(question);
  HeadChoice choice;
  choice.index = &index;
  ExpectRows(question, head, &choice);
  const double correction = question.plan->kind == QueryKind::kAuto ? head.rows.value() : 1.0;
  choice.rows = std::min(Middle(question), choice.rows_expected * correction);
  const SearchSize size = SizeOf(question, choice);
  SparseRead read = {index.predict(size), size.bits, fixed + choice.rows, DistinctShare(question)};
  PredictValues(question, shape, &read);
  choice.sparse_cost = SparseCost(shape, read, machine);
  choice.sparse_ns = choice.sparse_cost.ns * head.TimeOf(index.draws).value();
  const auto rows = static_cast<double>(question.num_rows);
  choice.full_cost = FullCost(shape, static_cast<double>(question.chain.num_tokens), rows, machine);
  choice.full_cost.bytes /= rows;
  choice.full_cost.ns /= rows;
  choice.full_ns = choice.full_cost.ns * head.full_time.value();
  if (question.plan->kind != QueryKind::kAuto) {
    choice.full = false;
    return choice;
  }
  choice.full = PrefersFull(choice, head.TimeOf(index.draws), head.prefers_full);
  const bool broad = head.selected > kBroadShare * Middle(question);
  choice.reason = !choice.full ? Reason::kSparseCheaper
                  : broad      ? Reason::kBroadHead
                               : Reason::kFullCheaper;
  return choice;
}

const IndexType* DrawingIndex(const LayerQuestion& question) {
  const LayerPlan& plan = *question.plan;
  if (!plan.Draws() || !plan.default_index) return nullptr;
  if (question.chain.num_plane_tokens < LeastIndexTokens(question.spec->group_size()))
    return nullptr;
  for (const auto& index : question.registry->indexes()) {
    if (index->draws && index->HasBits(plan.kind, plan.bits)) return index.get();
  }
  return nullptr;
}

bool TakesIndex(const LayerQuestion& question, const HeadStatistics& head,
                const HeadChoice& by_scan, const HeadChoice& by_index) {
  if (head.index_time.count() == 0 || head.missed > kMissedShare * question.plan->error) {
    return false;
  }
  const double worth = head.prefers_index ? 1.0 : kWorthIndex;
  return by_index.sparse_ns < worth * by_scan.sparse_ns;
}

std::string NotesOf(const LayerQuestion& question) {
  const ChainFacts& chain = question.chain;
  std::string text;
  const auto add = [&text](const std::string& note) { text += (text.empty() ? "" : "; ") + note; };
  if (chain.num_filtered > 0) {
    add("partial reuse: filtered to the first " + std::to_string(chain.num_stored) + " of " +
        std::to_string(chain.num_stored + chain.num_filtered) + " stored tokens");
  }
  if (chain.gpu_bytes > 0 && chain.gpu_bytes >= chain.kv_bytes) {
    add("GPU memory holds all keys and values: topk over a coarse index there, which this version "
        "has not; planned for the CPU");
  } else if (chain.gpu_bytes > 0) {
    add("GPU memory of " + std::to_string(chain.gpu_bytes) + " bytes can't hold " +
        std::to_string(chain.kv_bytes) + ": CPU");
  }
  if (question.plan->Chooses() && question.plan->bits != 0 && chain.planes_missing) {
    add("no key planes for some stored tokens (memory, or they are being built): scored exactly");
  }
  return text;
}

}  // namespace attndb::planner
