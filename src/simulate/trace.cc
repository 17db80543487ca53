#include "simulate/trace.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attndb/units.h"
#include "common/checked_math.h"
#include "common/json.h"
#include "common/quote.h"

namespace attndb::tier {
namespace {

constexpr size_t kMaxLineBytes = 1 << 16;
constexpr uint64_t kMaxTokens = 1'000'000'000;  // A prompt's or an answer's.
constexpr double kMaxTime = 1e12;

// A turn and its conversation.
struct Line {
  double time = 0;
  std::string conversation;
  uint32_t new_tokens = 0;
  uint32_t answer_tokens = 0;
};

// A value in a message. A nested value, of any depth, is shown by its type.
std::string Dumped(const Json& json) {
  if (json.is_structured()) return std::string("an ") + json.type_name();
  return Quoted(DumpJson(json));
}

Result<double> TimeOf(const Json& json) {
  const auto found = json.find("time");
  if (found == json.end()) return Status::InvalidArgument("expected a time, found none");
  const double time = found->is_number() ? found->get<double>() : -1;
  if (!(time >= 0 && time <= kMaxTime)) {
    return Status::InvalidArgument("expected a time of 0 to 1e12 seconds, found " + Dumped(*found));
  }
  return time;
}

Result<std::string> ConversationOf(const Json& json) {
  const auto found = json.find("conversation");
  if (found == json.end()) {
    return Status::InvalidArgument("expected the turn's conversation, found none");
  }
  if (found->is_number_integer()) return DumpJson(*found);
  if (!found->is_string() || found->get_ref<const std::string&>().empty()) {
    return Status::InvalidArgument("expected a conversation's name or number, found " +
                                   Dumped(*found));
  }
  return "\"" + found->get<std::string>();  // No number is the same.
}

Result<uint32_t> TokensOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  const std::string expected = std::string("expected ") + key + " of 1 to 1,000,000,000, found ";
  if (found == json.end()) return Status::InvalidArgument(expected + "none");
  const bool is_size = found->is_number_unsigned() && found->get<uint64_t>() >= 1 &&
                       found->get<uint64_t>() <= kMaxTokens;
  if (!is_size) return Status::InvalidArgument(expected + Dumped(*found));
  return found->get<uint32_t>();
}

Result<Line> ParseLine(const std::string& text) {
  const Json json = ParseJson(text);
  if (!json.is_object()) {
    return Status::InvalidArgument("expected a JSON object, found " + Quoted(text));
  }
  Line line;
  ATTNDB_ASSIGN_OR_RETURN(line.time, TimeOf(json));
  ATTNDB_ASSIGN_OR_RETURN(line.conversation, ConversationOf(json));
  ATTNDB_ASSIGN_OR_RETURN(line.new_tokens, TokensOf(json, "new_tokens"));
  ATTNDB_ASSIGN_OR_RETURN(line.answer_tokens, TokensOf(json, "answer_tokens"));
  return line;
}

// Gathers turns by conversation, in the order in which these begin.
class TraceBuilder {
 public:
  explicit TraceBuilder(const TraceLimits& limits) : limits_(limits) {}

  Status Add(const Line& line) {
    if (turns_.empty()) begin_ = line.time;
    if (line.time < last_time_) {
      return Status::InvalidArgument("expected a time of at least " + std::to_string(last_time_) +
                                     ", that of the line before, found " +
                                     std::to_string(line.time));
    }
    last_time_ = line.time;
    if (turns_.size() == limits_.max_turns) {
      return Status::InvalidArgument("expected at most " + std::to_string(limits_.max_turns) +
                                     " turns, found more");
    }
    const auto [at, is_new] = index_.try_emplace(line.conversation, tokens_.size());
    if (is_new) tokens_.push_back(0);
    uint64_t& tokens = tokens_[at->second];
    tokens =
        std::min(limits_.window_tokens, tokens + line.new_tokens + uint64_t{line.answer_tokens});
    ATTNDB_RETURN_IF_ERROR(CheckSize(tokens));
    turns_.push_back({at->second,
                      {.not_before = line.time - begin_,
                       .pause = 0,
                       .new_tokens = line.new_tokens,
                       .answer_tokens = line.answer_tokens}});
    return Status::Ok();
  }

  Workload Build() {
    std::stable_sort(turns_.begin(), turns_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    Workload workload;
    workload.conversations.resize(tokens_.size());
    workload.turns.reserve(turns_.size());
    for (const auto& [index, turn] : turns_) {
      Conversation& conversation = workload.conversations[index];
      if (conversation.num_turns == 0) conversation.first_turn = workload.turns.size();
      conversation.num_turns += 1;
      workload.turns.push_back(turn);
    }
    return workload;
  }

  bool empty() const { return turns_.empty(); }

 private:
  Status CheckSize(uint64_t tokens) const {
    const CheckedSize bytes = CheckedMul(tokens, limits_.kv_bytes_per_token);
    if (limits_.largest_tier_bytes == 0 || (bytes && *bytes <= limits_.largest_tier_bytes)) {
      return Status::Ok();
    }
    return Status::InvalidArgument(
        "expected a conversation that a tier can hold, found " + Counted(tokens, "token") + " of " +
        FormatBytes(limits_.kv_bytes_per_token) + " of KV, more than the largest tier's " +
        FormatBytes(limits_.largest_tier_bytes));
  }

  const TraceLimits limits_;
  std::unordered_map<std::string, uint64_t> index_;  // By conversation.
  std::vector<uint64_t> tokens_;                     // By index: tokens so far, within the window.
  std::vector<std::pair<uint64_t, Turn>> turns_;     // With their conversation's index.
  double begin_ = 0;
  double last_time_ = -std::numeric_limits<double>::infinity();
};

}  // namespace

Result<Workload> ReadTrace(std::istream& stream, const std::string& name,
                           const TraceLimits& limits) {
  TraceBuilder builder(limits);
  std::string text(kMaxLineBytes, '\0');
  for (uint64_t number = 1; !stream.eof(); ++number) {
    const std::string place = name + " line " + std::to_string(number);
    stream.getline(text.data(), static_cast<std::streamsize>(text.size()));
    if (stream.bad()) return Status::IoError(place + ": can't be read");
    const auto length = static_cast<size_t>(stream.gcount());
    if (stream.fail() && !stream.eof()) {
      return Status::InvalidArgument(place + ": expected less than " +
                                     std::to_string(kMaxLineBytes) + " bytes");
    }
    const std::string line = text.substr(0, stream.eof() || length == 0 ? length : length - 1);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<Line> parsed = ParseLine(line);
    if (!parsed.ok()) return parsed.status().WithContext(place);
    const Status added = builder.Add(*parsed);
    if (!added.ok()) return added.WithContext(place);
  }
  if (builder.empty()) return Status::InvalidArgument(name + ": expected turns, found none");
  return builder.Build();
}

Result<Workload> ReadTrace(const std::string& path, const TraceLimits& limits) {
  std::ifstream stream(path);
  if (!stream.is_open()) {
    const int error = errno;
    const std::string message = path + ": " + std::strerror(error);
    return error == ENOENT ? Status::NotFound(message) : Status::IoError(message);
  }
  return ReadTrace(stream, path, limits);
}

}  // namespace attndb::tier
