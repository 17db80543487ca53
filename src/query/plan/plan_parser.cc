// Recursive descent over plan text; grammar and meaning: plan.h.
#include <charconv>
#include <cmath>
#include <optional>

#include "query/plan/plan.h"

namespace attndb::query {
namespace {

constexpr size_t kMaxTextBytes = 4096;
constexpr uint32_t kMaxTokens = 1u << 30;  // Largest k, sink or window.
constexpr uint32_t kAutoBits = 4;
constexpr double kMaxError = 0.5;
constexpr uint32_t kMaxSamples = 1u << 20;
constexpr uint32_t kMaxLayer = 1u << 16;

struct Preset {
  std::string_view name;
  std::string_view text;
};

// Settings of the papers: [Alaya] 9.1, [RA] 4.1.
constexpr Preset kPresets[] = {
    {"alaya", "dipr(alpha=0.012,sink=128,window=512)"},
    {"retrieval_attention", "topk(k=100,sink=128,window=512)"},
};

struct Query {
  std::string_view name;
  QueryKind kind;
  std::string_view needs;  // What must be given, with an example.
};

constexpr Query kQueries[] = {
    {"full", QueryKind::kFull, ""},
    {"window", QueryKind::kWindow, ""},
    {"topk", QueryKind::kTopK, "topk needs k, for example topk(k=512)"},
    {"dipr", QueryKind::kDipr, "dipr needs beta or alpha, for example dipr(alpha=0.012)"},
    {"mass", QueryKind::kMass, "mass needs p, for example mass(p=0.99)"},
    {"auto", QueryKind::kAuto, "auto needs error, for example auto(error=0.01)"},
};

std::string NeedsOf(QueryKind kind) {
  for (const Query& query : kQueries) {
    if (query.kind == kind) return std::string(query.needs);
  }
  return "";
}

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool IsNumberChar(char c) { return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+'; }

}  // namespace

class PlanParser {
 public:
  explicit PlanParser(std::string_view text) : text_(text) {}

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
    for (const Preset& preset : kPresets) {
      if (name != preset.name) continue;
      PlanParser parser(preset.text);
      ATTNDB_RETURN_IF_ERROR(parser.ParseQuery(plan));
      return ParseKeys(plan, /*needs_key=*/false, start);
    }
    for (const Query& query : kQueries) {
      if (name != query.name) continue;
      plan->kind = query.kind;
      if (plan->kind == QueryKind::kAuto) plan->bits = kAutoBits;
      return ParseKeys(plan, plan->Chooses(), start);
    }
    return Error(start, "unknown query '" + std::string(name) +
                            "'; known: full, window, topk(k=...), dipr(beta=...|alpha=...), "
                            "mass(p=...), auto(error=...), alaya, retrieval_attention");
  }

  Status ParseKeys(LayerPlan* plan, bool needs_key, size_t query_pos) {
    seen_.clear();
    if (Accept('(') && !Accept(')')) {
      do {
        ATTNDB_RETURN_IF_ERROR(ParseKey(plan));
      } while (Accept(','));
      ATTNDB_RETURN_IF_ERROR(Expect(')'));
    }
    for (const std::string_view key : {"k", "beta", "alpha", "p", "error"}) {
      if (!needs_key || Seen(key)) return Status::Ok();
    }
    return Error(query_pos, NeedsOf(plan->kind));
  }

  Status ParseKey(LayerPlan* plan) {
    SkipSpace();
    const size_t key_pos = pos_;
    const std::string_view key = Word();
    if (key.empty()) return Error(key_pos, "expected a key");
    if (Seen(key)) return Error(key_pos, "key '" + std::string(key) + "' is given twice");
    seen_.push_back(key);
    ATTNDB_RETURN_IF_ERROR(Expect('='));
    SkipSpace();
    const size_t value_pos = pos_;
    const std::string_view value = Value();
    if (key == "k" && plan->kind == QueryKind::kTopK) {
      return SetInteger(value, value_pos, 1, &plan->k);
    }
    if (plan->kind == QueryKind::kDipr && (key == "beta" || key == "alpha")) {
      return SetMargin(key, key_pos, value, value_pos, plan);
    }
    if (key == "p" && plan->kind == QueryKind::kMass) return SetMass(value, value_pos, plan);
    if (key == "error" && plan->kind == QueryKind::kAuto) return SetError(value, value_pos, plan);
    if (plan->kind != QueryKind::kFull) {
      if (key == "sink") return SetInteger(value, value_pos, 0, &plan->sink);
      if (key == "window") return SetInteger(value, value_pos, 1, &plan->window);
    }
    if (plan->Chooses()) {
      if (key == "index") return value == "flat" ? Status::Ok() : NotHere(key, value, value_pos);
      if (key == "bits") return SetBits(value, value_pos, plan);
      if (key == "remainder" && plan->kind != QueryKind::kAuto) {
        return SetRemainder(value, value_pos, plan);
      }
    }
    return Error(key_pos, "unknown key '" + std::string(key) + "' of this query");
  }

  // A value that the plan language has, or will have, and this version has not.
  Status NotHere(std::string_view key, std::string_view value, size_t pos) const {
    const std::string_view known = key == "index"  ? "index=flat"
                                   : key == "bits" ? "bits=exact, 8 and 4"
                                                   : "remainder=drop and sample:n";
    const Status error = Error(pos, std::string(key) + "=" + std::string(value) +
                                        " is not in this version; it has " + std::string(known));
    return Status::Unsupported(error.message());
  }

  Status SetBits(std::string_view value, size_t pos, LayerPlan* plan) const {
    if (value == "exact") {
      plan->bits = 0;
    } else if (value == "4" || value == "8") {
      plan->bits = value == "4" ? 4 : 8;
    } else {
      return NotHere("bits", value, pos);
    }
    return Status::Ok();
  }

  Status SetRemainder(std::string_view value, size_t pos, LayerPlan* plan) const {
    constexpr std::string_view kSample = "sample:";
    if (value == "drop") {
      plan->samples = 0;
      return Status::Ok();
    }
    if (!value.starts_with(kSample)) return NotHere("remainder", value, pos);
    const std::optional<uint32_t> samples = ToInteger(value.substr(kSample.size()), 1, kMaxSamples);
    if (!samples) {
      return Error(
          pos, "expected sample:n with a whole number n from 1 to " + std::to_string(kMaxSamples));
    }
    plan->samples = *samples;
    return Status::Ok();
  }

  static std::optional<double> ToNumber(std::string_view text) {
    double number = 0.0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || !std::isfinite(number)) return std::nullopt;
    return number;
  }

  Status SetMass(std::string_view value, size_t pos, LayerPlan* plan) const {
    const std::optional<double> number = ToNumber(value);
    if (!number || *number <= 0.0 || *number > 1.0) {
      return Error(pos, "p must be a number in (0, 1]");
    }
    plan->p = *number;
    return Status::Ok();
  }

  Status SetError(std::string_view value, size_t pos, LayerPlan* plan) const {
    const std::optional<double> number = ToNumber(value);
    if (!number || *number <= 0.0 || *number > kMaxError) {
      return Error(pos, "error must be a number in (0, 0.5]");
    }
    plan->error = *number;
    return Status::Ok();
  }

  Status SetMargin(std::string_view key, size_t key_pos, std::string_view value, size_t value_pos,
                   LayerPlan* plan) {
    if (Seen("beta") && Seen("alpha")) return Error(key_pos, "give beta or alpha, not both");
    const std::optional<double> number = ToNumber(value);
    if (key == "beta") {
      if (!number || *number < 0.0) return Error(value_pos, "beta must be a number >= 0");
      plan->beta = *number;
      plan->alpha = 0.0;
    } else {
      if (!number || *number <= 0.0 || *number > 1.0) {
        return Error(value_pos, "alpha must be a number in (0, 1]");
      }
      plan->alpha = *number;
      plan->beta = 0.0;
    }
    return Status::Ok();
  }

  Status SetInteger(std::string_view value, size_t pos, uint32_t min, uint32_t* field) const {
    const std::optional<uint32_t> number = ToInteger(value, min, kMaxTokens);
    if (!number) {
      return Error(pos, "expected a whole number from " + std::to_string(min) + " to " +
                            std::to_string(kMaxTokens));
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

  bool Seen(std::string_view key) const {
    for (const std::string_view seen : seen_) {
      if (seen == key) return true;
    }
    return false;
  }

  const std::string_view text_;
  size_t pos_ = 0;
  std::vector<std::string_view> seen_;  // Keys of the query being parsed.
};

Result<Plan> Plan::Parse(std::string_view text) { return PlanParser(text).ParsePlan(); }

}  // namespace attndb::query
