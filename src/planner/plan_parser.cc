// Recursive descent over plan text; grammar and meaning: plan.h.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "planner/plan.h"

namespace attndb::planner {
namespace {

constexpr size_t kMaxTextBytes = 4096;
constexpr uint32_t kMaxTokens = 1u << 30;  // Largest sink or window.
constexpr uint32_t kMaxSamples = 1u << 20;
constexpr uint32_t kMaxStatic = 4096;
constexpr uint32_t kMaxBits = 32;
constexpr uint32_t kMaxLayer = 1u << 16;
constexpr std::string_view kSample = "sample:";
constexpr std::string_view kClusters = "clusters";
constexpr std::string_view kPrefill = "prefill:";
constexpr std::string_view kRuledMemory = "memory";

// A value of earlier versions, and its successor.
struct FormerValue {
  std::string_view key;
  std::string_view value;
  std::string_view successor;
};
constexpr FormerValue kFormerValues[] = {{"bits", "1", "4"},
                                         {"remainder", "planes:2", "sample:512"},
                                         {"remainder", "planes:4", "sample:1024"},
                                         {"remainder", "planes:8", "sample:1024"}};

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool IsNumberChar(char c) { return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+'; }

}  // namespace

class PlanParser {
 public:
  PlanParser(std::string_view text, const PlanRegistry& registry)
      : text_(text), registry_(registry) {}

  Result<Plan> ParsePlan() {
    if (text_.size() > kMaxTextBytes) return Status::InvalidArgument("plan text is too long");
    Plan plan;
    ATTNDB_RETURN_IF_ERROR(ParseQuery(&plan.base_));
    while (Accept(';')) {
      if (AtEnd()) break;  // A closing semicolon is fine.
      ATTNDB_RETURN_IF_ERROR(ParseOverride(&plan));
    }
    if (!AtEnd()) return Error(pos_, "expected ';' or the end");
    return plan;
  }

 private:
  // A word or a value of the text.
  struct Item {
    size_t pos;
    std::string_view text;
  };

  Status Error(size_t pos, const std::string& what) const {
    return Status::InvalidArgument("plan '" + std::string(text_) + "', column " +
                                   std::to_string(pos + 1) + ": " + what);
  }

  void SkipSpace() {
    while (pos_ < text_.size() && text_[pos_] == ' ') ++pos_;
  }
  bool AtEnd() {
    SkipSpace();
    return pos_ == text_.size();
  }
  bool Accept(char c) {
    SkipSpace();
    if (pos_ == text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  Status Expect(char c) {
    if (Accept(c)) return Status::Ok();
    return Error(pos_, std::string("expected '") + c + "'");
  }

  std::string_view Word() {
    SkipSpace();
    const size_t begin = pos_;
    while (pos_ < text_.size() && IsWordChar(text_[pos_])) ++pos_;
    return text_.substr(begin, pos_ - begin);
  }

  // A value: letters, digits and the signs of numbers.
  std::string_view Value() {
    SkipSpace();
    const size_t begin = pos_;
    while (pos_ < text_.size() &&
           (IsWordChar(text_[pos_]) || IsNumberChar(text_[pos_]) || text_[pos_] == ':')) {
      ++pos_;
    }
    return text_.substr(begin, pos_ - begin);
  }

  Status ParseOverride(Plan* plan) {
    SkipSpace();
    const size_t start = pos_;
    if (Word() != "layers") return Error(start, "expected 'layers'");
    const size_t first_new = plan->overrides_.size();
    do {
      Plan::Override item;
      ATTNDB_RETURN_IF_ERROR(ParseLayer(&item.first));
      item.last = item.first;
      if (Accept('-')) ATTNDB_RETURN_IF_ERROR(ParseLayer(&item.last));
      if (item.last < item.first) return Error(pos_, "the range of layers is empty");
      plan->overrides_.push_back(item);
    } while (Accept(','));
    ATTNDB_RETURN_IF_ERROR(Expect(':'));
    LayerPlan query;
    ATTNDB_RETURN_IF_ERROR(ParseQuery(&query));
    for (size_t i = first_new; i < plan->overrides_.size(); ++i) plan->overrides_[i].plan = query;
    return Status::Ok();
  }

  Status ParseLayer(LayerId* layer) {
    SkipSpace();
    const size_t start = pos_;
    const std::optional<uint32_t> number = ToInteger(Word(), 0, kMaxLayer);
    if (!number) return Error(start, "expected the number of a layer");
    *layer = *number;
    return Status::Ok();
  }

  Status ParseQuery(LayerPlan* plan) {
    SkipSpace();
    const size_t start = pos_;
    const std::string_view name = Word();
    if (const PlanRegistry::Preset* const preset = registry_.FindPreset(name)) {
      PlanParser parser(preset->text, registry_);
      Status status = parser.BeginQuery(0, parser.Word(), plan);
      if (status.ok()) status = parser.ParseKeys(plan);
      if (!status.ok()) return OfPreset(*preset, start, status);
    } else {
      ATTNDB_RETURN_IF_ERROR(BeginQuery(start, name, plan));
    }
    ATTNDB_RETURN_IF_ERROR(ParseKeys(plan));
    if (!plan->Word("rules").empty()) plan->kind = QueryKind::kRules;
    return CheckQuery(*plan, start);
  }

  Status BeginQuery(size_t start, std::string_view name, LayerPlan* plan) const {
    const QueryType* const query = registry_.FindQuery(name);
    if (query == nullptr) {
      const std::string word(name);
      if (registry_.FindIndex(name) != nullptr) {
        return Error(
            start, "'" + word +
                       "' is an index, which a query searches by: topk(k=...,index=" + word + ")");
      }
      return Error(start, "unknown query '" + word + "'; known: " + registry_.KnownQueries());
    }
    plan->query = query;
    plan->kind = query->kind;
    plan->bits = query->default_bits;
    if (plan->Chooses()) {
      plan->index =
          query->index.empty() ? registry_.default_index() : registry_.FindIndex(query->index);
    }
    return Status::Ok();
  }

  // The error of a preset that can't be used: it may need a part that this version lacks.
  Status OfPreset(const PlanRegistry::Preset& preset, size_t start, const Status& status) const {
    const Status error =
        Error(start, "'" + preset.name + "' stands for " + preset.text + ": " + status.message());
    return status.code() == StatusCode::kUnsupported ? Status::Unsupported(error.message()) : error;
  }

  Status CheckQuery(const LayerPlan& plan, size_t start) const {
    if (plan.kind == QueryKind::kRules) return CheckRules();
    if (plan.Given(kRuledMemory)) {
      return Error(start, "memory needs rules=alaya: nothing else asks how much there is");
    }
    for (const Argument& argument : plan.query->arguments) {
      if (!argument.optional && NumGiven(plan, argument.choice) == 0)
        return Error(start, plan.query->needs);
    }
    if (plan.Bounds()) ATTNDB_RETURN_IF_ERROR(CheckFallback(plan));
    if (plan.UsesIndex()) ATTNDB_RETURN_IF_ERROR(CheckFinds(plan, start));
    if (plan.remainder == Remainder::kClusters && !plan.UsesIndex()) {
      return Error(start, "remainder=clusters stands for what an index did not look at; index=" +
                              plan.index->name + " has remainder=drop, mean and sample:n");
    }
    if (!plan.Chooses() || plan.index->HasBits(plan.kind, plan.bits)) return Status::Ok();
    const Status error = Error(start, "index=" + plan.index->name + " can't be searched at bits=" +
                                          BitsText(plan.bits) + "; it has " + AllBits(plan));
    return Status::Unsupported(error.message());
  }

  // A rule set decides all that other keys would say.
  Status CheckRules() const {
    for (const Item& key : seen_) {
      if (key.text == "rules" || key.text == kRuledMemory || key.text == "await") continue;
      return Error(key.pos, "leave out key '" + std::string(key.text) + "': rules decide that");
    }
    return Status::Ok();
  }

  // An index that finds keys knows nothing about keys that it did not visit.
  Status CheckFinds(const LayerPlan& plan, size_t start) const {
    const std::string by = "index=" + plan.index->name;
    if (plan.Draws() && plan.index->draws != IndexType::Draws::kNot) return Status::Ok();
    if (!plan.query->by_index && !plan.index->scores_all) {
      const Status error =
          Error(start, by + " finds the best tokens; " + plan.query->name +
                           " needs the scores of all: index=" + registry_.default_index()->name);
      return Status::Unsupported(error.message());
    }
    if (plan.query->is_range && plan.index->best_only) {
      const Status error =
          Error(start, by + " finds blocks of the best tokens; " + plan.query->name +
                           " asks for a range: topk, or another index");
      return Status::Unsupported(error.message());
    }
    if (plan.remainder != Remainder::kDrop && plan.remainder != Remainder::kClusters) {
      return Error(start, by + " needs remainder=drop or clusters: it does not score what it "
                               "leaves out");
    }
    if (plan.remainder == Remainder::kClusters && plan.index->is_custom) {
      return Error(start, by + " estimates what it leaves out by itself: it needs remainder=drop");
    }
    if (plan.index->conflict != nullptr) {
      const std::string conflict = plan.index->conflict(plan);
      if (!conflict.empty()) return Error(start, conflict);
    }
    if (plan.Bounds()) {
      return Error(fallback_pos_, by + " bounds nothing; exact_fallback needs index=" +
                                      registry_.default_index()->name);
    }
    return Status::Ok();
  }

  // A bound of the estimated tokens makes an estimate of the remainder no more certain.
  Status CheckFallback(const LayerPlan& plan) const {
    if (plan.remainder != Remainder::kDrop) {
      return Error(fallback_pos_, "exact_fallback needs remainder=drop: it bounds what is dropped");
    }
    return Status::Ok();
  }

  // The number of given arguments among those that exclude each other.
  static size_t NumGiven(const LayerPlan& plan, uint8_t choice) {
    size_t count = 0;
    for (size_t i = 0; i < plan.query->arguments.size(); ++i) {
      const bool counts = plan.query->arguments[i].choice == choice && plan.arguments.given[i];
      count += static_cast<size_t>(counts);
    }
    return count;
  }

  Status ParseKeys(LayerPlan* plan) {
    seen_.clear();
    if (!Accept('(') || Accept(')')) return Status::Ok();
    do {
      ATTNDB_RETURN_IF_ERROR(ParseKey(plan));
    } while (Accept(','));
    return Expect(')');
  }

  Status ParseKey(LayerPlan* plan) {
    SkipSpace();
    const Item item = {pos_, Word()};
    if (item.text.empty()) return Error(item.pos, "expected a key");
    const std::string quoted = "key '" + std::string(item.text) + "'";
    if (Seen(item.text)) return Error(item.pos, quoted + " is given twice");
    seen_.push_back(item);
    ATTNDB_RETURN_IF_ERROR(Expect('='));
    SkipSpace();
    const size_t value_pos = pos_;
    const Item value = {value_pos, Value()};
    for (size_t i = 0; i < plan->query->arguments.size(); ++i) {
      if (plan->query->arguments[i].key == item.text) return SetArgument(item, value, i, plan);
    }
    if (plan->kind != QueryKind::kFull) {
      if (item.text == "sink") return SetInteger(value, 0, &plan->sink);
      if (item.text == "window") return SetInteger(value, 1, &plan->window);
    }
    if (plan->Chooses()) {
      if (item.text == "index" && plan->query->index.empty()) return SetIndex(value, plan);
      if (item.text == "bits") return SetBits(value, plan);
      if (item.text == "await") return SetAwaits(value, plan);
      if (item.text == "remainder" && plan->kind != QueryKind::kAuto) {
        return SetRemainder(value, plan);
      }
      if (item.text == "tail" && plan->kind != QueryKind::kAuto) return SetTail(value, plan);
      if (item.text == "static" && plan->kind != QueryKind::kAuto) {
        return SetStatic(item, value, plan);
      }
      if (item.text == "value_bits" && plan->kind == QueryKind::kAuto) {
        return SetValueBits(value, plan);
      }
      if (item.text == "exact_fallback" && plan->kind != QueryKind::kAuto) {
        return SetFallback(item, value, plan);
      }
      for (size_t i = 0; i < plan->index->arguments.size(); ++i) {
        if (plan->index->arguments[i].key != item.text) continue;
        return SetNumber(plan->index->arguments[i], value, i, &plan->index_arguments);
      }
    }
    return Error(item.pos, "unknown " + quoted + " of this query");
  }

  // Sets the query's argument i. Where a preset set another argument of the same choice, the new
  // one takes its place.
  Status SetArgument(const Item& key, const Item& value, size_t i, LayerPlan* plan) {
    const Argument& argument = plan->query->arguments[i];
    for (size_t j = 0; j < plan->query->arguments.size(); ++j) {
      const Argument& other = plan->query->arguments[j];
      if (j == i || other.choice != argument.choice) continue;
      if (Seen(other.key)) {
        const size_t first = std::min(i, j);
        const size_t second = std::max(i, j);
        return Error(key.pos, "give " + plan->query->arguments[first].key + " or " +
                                  plan->query->arguments[second].key + ", not both");
      }
      plan->arguments.given[j] = false;
      plan->arguments.values[j] = 0.0;
    }
    ATTNDB_RETURN_IF_ERROR(SetNumber(argument, value, i, &plan->arguments));
    if (plan->kind == QueryKind::kAuto && argument.key == "error") {
      plan->error = plan->arguments.values[i];
    }
    return Status::Ok();
  }

  Status SetNumber(const Argument& argument, const Item& value, size_t i,
                   ArgumentValues* values) const {
    if (!argument.words.empty()) {
      const auto word = std::ranges::find(argument.words, value.text);
      if (word == argument.words.end()) return Error(value.pos, WordsText(argument));
      values->values[i] = static_cast<double>(word - argument.words.begin());
    } else if (argument.whole) {
      uint32_t number = 0;
      const uint32_t max = argument.max > 0 ? static_cast<uint32_t>(argument.max) : kMaxTokens;
      ATTNDB_RETURN_IF_ERROR(SetInteger(value, static_cast<uint32_t>(argument.min), &number, max));
      const std::vector<uint32_t>& allowed = argument.values;
      if (!allowed.empty() && std::ranges::count(allowed, number) == 0) {
        return Error(value.pos, argument.error);
      }
      values->values[i] = number;
    } else {
      const std::optional<double> number = ToNumber(value.text);
      if (!number || *number < argument.min || *number > argument.max ||
          (argument.above_min && *number == argument.min)) {
        return Error(value.pos, argument.error);
      }
      values->values[i] = *number;
    }
    values->given[i] = true;
    return Status::Ok();
  }

  // "walk must be group or diprs"
  static std::string WordsText(const Argument& argument) {
    std::string text = argument.key + " must be ";
    for (size_t i = 0; i < argument.words.size(); ++i) {
      if (i > 0) text += i + 1 == argument.words.size() ? " or " : ", ";
      text += argument.words[i];
    }
    return text;
  }

  // A value that the plan language has had, has, or will have, and this version has not.
  Status NotHere(std::string_view key, const Item& value, const std::string& known) const {
    std::string why = " is not in this version; it has " + known;
    for (const FormerValue& former : kFormerValues) {
      if (former.key != key || former.value != value.text) continue;
      why = " is no more; " + std::string(key) + "=" + std::string(former.successor) +
            " takes its place";
    }
    const Status error = Error(value.pos, std::string(key) + "=" + std::string(value.text) + why);
    return Status::Unsupported(error.message());
  }

  static std::string BitsText(uint32_t bits) { return bits == 0 ? "exact" : std::to_string(bits); }

  // "exact, 8 and 4"
  static std::string AllBits(const LayerPlan& plan) {
    const std::vector<uint32_t> bits = plan.index->BitsFor(plan.kind);
    std::string text;
    for (size_t i = 0; i < bits.size(); ++i) {
      if (i > 0) text += i + 1 == bits.size() ? " and " : ", ";
      text += BitsText(bits[i]);
    }
    return text;
  }

  Status SetIndex(const Item& value, LayerPlan* plan) const {
    const IndexType* const index = registry_.FindIndex(value.text);
    if (index == nullptr) return NotHere("index", value, "index=" + registry_.KnownIndexes());
    const bool has_default = !Seen("remainder") && HasDefaultRemainder(*plan);
    plan->index = index;
    plan->index_arguments = {};
    if (has_default) SetDefaultRemainder(plan);
    // `auto` chooses among indexes: naming one, even the default, leaves it no choice.
    plan->default_index = index == registry_.default_index() && plan->kind != QueryKind::kAuto;
    return Status::Ok();
  }

  static bool HasDefaultRemainder(const LayerPlan& plan) {
    LayerPlan other = plan;
    SetDefaultRemainder(&other);
    return other == plan;
  }

  // The treatment of left-out tokens if the text does not name one.
  static void SetDefaultRemainder(LayerPlan* plan) {
    plan->samples = 0;
    plan->cluster_share = plan->index->estimated_share;
    plan->remainder = plan->cluster_share > 0 ? Remainder::kClusters : Remainder::kDrop;
  }

  Status SetBits(const Item& value, LayerPlan* plan) const {
    const std::optional<uint32_t> number =
        value.text == "exact" ? std::optional<uint32_t>(0) : ToInteger(value.text, 1, kMaxBits);
    if (!number || !plan->index->HasBits(plan->kind, *number)) {
      return NotHere("bits", value, "bits=" + AllBits(*plan));
    }
    plan->bits = *number;
    return Status::Ok();
  }

  Status SetAwaits(const Item& value, LayerPlan* plan) const {
    if (value.text != "0" && value.text != "1") return Error(value.pos, "await must be 0 or 1");
    plan->awaits = value.text == "1";
    return Status::Ok();
  }

  Status SetTail(const Item& value, LayerPlan* plan) const {
    if (value.text != "searched" && value.text != "exact") {
      return Error(value.pos, "tail must be searched or exact");
    }
    plan->exact_tail = value.text == "exact";
    return Status::Ok();
  }

  // A custom query type mixes selected tokens with its own estimate of the rest.
  Status SetStatic(const Item& key, const Item& value, LayerPlan* plan) const {
    if (!plan->query->index.empty()) {
      return Error(key.pos, "static needs topk, dipr or mass: " + plan->query->name +
                                " says itself what is attended to");
    }
    plan->num_static = 0;
    if (value.text == "none") return Status::Ok();
    const std::optional<uint32_t> number =
        value.text.starts_with(kPrefill)
            ? ToInteger(value.text.substr(kPrefill.size()), 1, kMaxStatic)
            : std::nullopt;
    if (!number) {
      return Error(value.pos, "static must be none, or prefill:n with a whole number n from 1 to " +
                                  std::to_string(kMaxStatic));
    }
    plan->num_static = *number;
    return Status::Ok();
  }

  // Replaces the remainder that a preset has set.
  Status SetRemainder(const Item& value, LayerPlan* plan) const {
    plan->samples = 0;
    plan->cluster_share = 0.0;
    if (value.text == "drop" || value.text == "mean") {
      plan->remainder = value.text == "drop" ? Remainder::kDrop : Remainder::kMean;
      return Status::Ok();
    }
    if (value.text.starts_with(kSample)) {
      plan->remainder = Remainder::kSample;
      return SetSamples(value, plan);
    }
    if (value.text.starts_with(kClusters)) return SetClusters(value, plan);
    return NotHere("remainder", value, "remainder=drop, mean, sample:n and clusters");
  }

  // "clusters", all of them, or "clusters:0.25".
  Status SetClusters(const Item& value, LayerPlan* plan) const {
    const std::string_view rest = value.text.substr(kClusters.size());
    const std::optional<double> share =
        rest.empty() ? 1.0 : (rest[0] == ':' ? ToNumber(rest.substr(1)) : std::nullopt);
    if (!share || *share <= 0 || *share > 1) {
      return Error(value.pos, "expected clusters, or clusters:share with a share in (0, 1]");
    }
    plan->remainder = Remainder::kClusters;
    plan->cluster_share = *share;
    return Status::Ok();
  }

  Status SetSamples(const Item& value, LayerPlan* plan) const {
    const std::optional<uint32_t> samples =
        ToInteger(value.text.substr(kSample.size()), 1, kMaxSamples);
    if (!samples) {
      return Error(value.pos, "expected sample:n with a whole number n from 1 to " +
                                  std::to_string(kMaxSamples));
    }
    plan->samples = *samples;
    return Status::Ok();
  }

  Status SetValueBits(const Item& value, LayerPlan* plan) const {
    if (value.text != "exact" && value.text != "8") {
      return NotHere("value_bits", value, "value_bits=exact and 8");
    }
    plan->value_bits = value.text == "8" ? 8 : 0;
    return Status::Ok();
  }

  Status SetFallback(const Item& key, const Item& value, LayerPlan* plan) {
    const std::optional<double> number = ToNumber(value.text);
    if (!number || *number <= 0 || *number > 1) {
      return Error(value.pos, "exact_fallback must be a number in (0, 1]");
    }
    plan->exact_fallback = *number;
    fallback_pos_ = key.pos;
    return Status::Ok();
  }

  static std::optional<double> ToNumber(std::string_view text) {
    double number = 0.0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || !std::isfinite(number)) return std::nullopt;
    return number;
  }

  Status SetInteger(const Item& value, uint32_t min, uint32_t* field,
                    uint32_t max = kMaxTokens) const {
    const std::optional<uint32_t> number = ToInteger(value.text, min, max);
    if (!number) {
      return Error(value.pos, "expected a whole number from " + std::to_string(min) + " to " +
                                  std::to_string(max));
    }
    *field = *number;
    return Status::Ok();
  }

  static std::optional<uint32_t> ToInteger(std::string_view text, uint32_t min, uint32_t max) {
    uint32_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || number < min || number > max) return std::nullopt;
    return number;
  }

  bool Seen(std::string_view key) const { return std::ranges::count(seen_, key, &Item::text) != 0; }

  const std::string_view text_;
  const PlanRegistry& registry_;
  size_t pos_ = 0;
  size_t fallback_pos_ = 0;  // Position of the key exact_fallback, if it was given.
  std::vector<Item> seen_;   // Keys of the query being parsed.
};

Result<Plan> Plan::Parse(std::string_view text, const PlanRegistry& registry) {
  return PlanParser(text, registry).ParsePlan();
}

}  // namespace attndb::planner
