// Generating text: prefill, then sample and decode until an end.
#include <utility>

#include "engines/llama/engine_impl.h"
#include "engines/llama/sampler.h"
#include "engines/llama/text_stream.h"

namespace attndb::llama {
namespace {

// Shows text as it comes; knows when to end.
class Output {
 public:
  Output(const GenerateOptions& options, const Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer), stream_(options.stop) {}

  // The reason to end after this token, if there is one.
  std::optional<FinishReason> Push(TokenId token) {
    if (!tokenizer_.present()) return std::nullopt;
    if (!Show(stream_.Push(tokenizer_.Piece(token)))) return FinishReason::kCancelled;
    if (stream_.stopped()) return FinishReason::kStop;
    return std::nullopt;
  }

  std::string Finish() {
    Show(stream_.Finish());
    return stream_.text();
  }

 private:
  bool Show(const std::string& piece) {
    return piece.empty() || !options_.on_piece || options_.on_piece(piece);
  }

  const GenerateOptions& options_;
  const Tokenizer& tokenizer_;
  TextStream stream_;
};

}  // namespace

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEnd:
      return "end";
    case FinishReason::kMaxTokens:
      return "max_tokens";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

Result<Generation> LlamaEngine::Impl::Generate(Session& session, std::span<const TokenId> rest,
                                               const GenerateOptions& generate) {
  const Clock::time_point start = Clock::now();
  ATTNDB_ASSIGN_OR_RETURN(TokenSampler sampler,
                          TokenSampler::Make(generate.sampler, info.vocab_size));
  ATTNDB_RETURN_IF_ERROR(Prefill(session, rest, generate.prefill));
  Generation result;
  result.num_prefilled = rest.size();
  result.prefill_ms = MillisecondsSince(start);
  for (const TokenId token : rest) sampler.Accept(token);

  Output output(generate, *tokenizer);
  Clock::time_point first_token;
  while (result.tokens.size() < generate.max_tokens) {
    const TokenId token = sampler.Sample(Logits(0));
    if (result.first_token_ms == 0) {
      result.first_token_ms = MillisecondsSince(start);
      first_token = Clock::now();
    } else if (result.second_token_ms == 0) {
      result.second_token_ms = MillisecondsSince(start);
    }
    if (!generate.ignore_end && tokenizer->IsEndOfGeneration(token)) {
      result.finish = FinishReason::kEnd;
      break;
    }
    sampler.Accept(token);
    result.tokens.push_back(token);
    if (const std::optional<FinishReason> end = output.Push(token)) {
      result.finish = *end;
      break;
    }
    if (result.tokens.size() == generate.max_tokens) break;
    ATTNDB_RETURN_IF_ERROR(MakeRoom(generate.prefill.window, 1, &session).status());
    const BatchEntry entry = {.session = &session, .tokens = {&result.tokens.back(), 1}};
    ATTNDB_RETURN_IF_ERROR(DecodeBatch({&entry, 1}));
    ++result.num_in_session;
  }
  if (result.num_in_session > 0) {
    result.decode_ms_per_token =
        MillisecondsSince(first_token) / static_cast<double>(result.num_in_session);
  }
  result.text = output.Finish();
  return result;
}

}  // namespace attndb::llama
