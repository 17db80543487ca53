#include "cli/client/server_answer.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "cli/client/context_json.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "engines/llama/llama_engine.h"
#include "server/json.h"

namespace attndb::cli {
namespace {

constexpr const char* kDroppedHeader = "x-attndb-dropped";
constexpr const char* kFoundHeader = "x-attndb-found";

// Collects the events of one answer.
class Listening {
 public:
  explicit Listening(Environment* env) : env_(env), start_seconds_(MonotonicSeconds()) {}

  Status Take(const Json& event) {
    if (const Json* const usage = server::FindMember(event, "usage")) {
      ATTNDB_RETURN_IF_ERROR(TakeUsage(*usage));
    }
    const Json* const choices = server::FindMember(event, "choices");
    if (choices == nullptr || !choices->is_array() || choices->empty()) return Status::Ok();
    const Json& choice = choices->front();
    if (!choice.is_object()) return Status::IoError("the server sent a choice that is no object");
    const Json* const finish = server::FindMember(choice, "finish_reason");
    if (finish != nullptr && finish->is_string()) {
      answer_.finish = *finish == "length" ? FinishReasonName(llama::FinishReason::kMaxTokens)
                                           : FinishReasonName(llama::FinishReason::kEnd);
    }
    const Json* const delta = server::FindMember(choice, "delta");
    const Json* const text =
        delta != nullptr && delta->is_object() ? server::FindMember(*delta, "content") : nullptr;
    if (text != nullptr && text->is_string()) TakeText(text->get_ref<const std::string&>());
    return Status::Ok();
  }

  ServerAnswer End(bool interrupted) {
    const double seconds = MonotonicSeconds() - start_seconds_;
    AnswerStats& stats = answer_.stats;
    const double decode_seconds = seconds - stats.first_token_ms / 1e3;
    if (stats.generated_tokens > 1 && decode_seconds > 0) {
      stats.tokens_per_second = static_cast<double>(stats.generated_tokens - 1) / decode_seconds;
    }
    answer_.interrupted = interrupted;
    if (interrupted) answer_.finish = FinishReasonName(llama::FinishReason::kCancelled);
    if (!answer_.text.ends_with('\n')) env_->Print("\n");
    std::fflush(stdout);  // Later notes go to stderr, which may be the same file.
    return std::move(answer_);
  }

  bool has_text() const { return !answer_.text.empty(); }

 private:
  Status TakeUsage(const Json& usage) {
    if (!usage.is_object()) return Status::IoError("the server sent a usage that is no object");
    AnswerStats& stats = answer_.stats;
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_prompt, CountFromJson(usage, "prompt_tokens"));
    ATTNDB_ASSIGN_OR_RETURN(stats.generated_tokens, CountFromJson(usage, "completion_tokens"));
    const Json* const details = server::FindMember(usage, "prompt_tokens_details");
    if (details != nullptr) {
      ATTNDB_ASSIGN_OR_RETURN(stats.reused_tokens, CountFromJson(*details, "cached_tokens"));
    }
    if (stats.reused_tokens > num_prompt) {
      return Status::IoError("the server reused more tokens than the prompt has");
    }
    stats.new_tokens = num_prompt - stats.reused_tokens;
    if (server::FindMember(usage, "run_tokens") != nullptr) {  // Others had left the window.
      ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_run, CountFromJson(usage, "run_tokens"));
      stats.new_tokens = std::min(stats.new_tokens, num_run);
    }
    ATTNDB_ASSIGN_OR_RETURN(answer_.num_dropped, CountFromJson(usage, "dropped_tokens"));
    return Status::Ok();
  }

  void TakeText(const std::string& text) {
    if (text.empty()) return;
    AnswerStats& stats = answer_.stats;
    const double ms = (MonotonicSeconds() - start_seconds_) * 1e3;
    if (answer_.text.empty()) {
      stats.first_token_ms = ms;
    } else if (stats.second_token_ms == 0) {
      stats.second_token_ms = ms;
    }
    answer_.text += text;
    env_->Print(text);
    if (!env_->json()) std::fflush(stdout);
  }

  Environment* const env_;
  const double start_seconds_;
  ServerAnswer answer_;
};

// Tokens of the prompt that had left the window when the stream began.
uint64_t DroppedIn(const ServerClient::Headers& headers) {
  const auto found = headers.find(kDroppedHeader);
  uint64_t num_dropped = 0;
  if (found == headers.end()) return 0;
  const std::string& text = found->second;
  std::from_chars(text.data(), text.data() + text.size(), num_dropped);
  return num_dropped;
}

// The contexts that the server found for the question.
std::vector<std::string> FoundIn(const ServerClient::Headers& headers) {
  std::vector<std::string> contexts;
  const auto found = headers.find(kFoundHeader);
  std::string_view rest = found == headers.end() ? std::string_view() : found->second;
  while (!rest.empty()) {
    const size_t length = std::min(rest.find(','), rest.size());
    contexts.push_back(Printable(rest.substr(0, length)));
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  return contexts;
}

}  // namespace

Result<ServerAnswer> StreamAnswer(Environment* env, const ServerClient& client, Json body) {
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  Listening listening(env);
  const Result<ServerClient::Headers> headers =
      client.Stream("/v1/chat/completions", body,
                    [&listening](const Json& event) { return listening.Take(event); });
  const bool interrupted = headers.status().code() == StatusCode::kCancelled && Interrupted();
  if (interrupted && listening.has_text()) return listening.End(true);
  ATTNDB_RETURN_IF_ERROR(headers.status());
  ServerAnswer answer = listening.End(false);
  // The usage counts dropped tokens, too. An older server reports them nowhere else.
  answer.num_dropped = std::max(answer.num_dropped, DroppedIn(*headers));
  answer.found = FoundIn(*headers);
  return answer;
}

Json ToJson(const ServerAnswer& answer) {
  Json json = ToJson(answer.stats);
  if (answer.num_dropped > 0) {
    json.erase("dropped");
    json["dropped_tokens"] = answer.num_dropped;
  }
  return json;
}

}  // namespace attndb::cli
