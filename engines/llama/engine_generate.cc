// Generating text: prefill, then sample and decode until an end.
#include <limits>
#include <utility>

#include "engines/llama/engine_impl.h"
#include "engines/llama/reply.h"

namespace attndb::llama {

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

Result<std::unique_ptr<Reply>> LlamaEngine::Impl::BeginReply(
    const GenerateOptions& generate) const {
  SamplerOptions sampling = generate.sampler;
  for (const TokenId token : tokenizer->Suppressed()) {
    sampling.logit_bias.push_back({token, -std::numeric_limits<float>::infinity()});
  }
  ATTNDB_ASSIGN_OR_RETURN(TokenSampler sampler, TokenSampler::Make(sampling, info.vocab_size));
  std::unique_ptr<GrammarJob> grammar;
  if (generate.constraint) {
    ATTNDB_ASSIGN_OR_RETURN(grammar, grammars->Start(*generate.constraint));
  }
  return std::make_unique<Reply>(generate, &*tokenizer, std::move(sampler), std::move(grammar));
}

Status LlamaEngine::Impl::CheckGrammar(const ReplyConstraint& constraint) const {
  ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<GrammarJob> job, grammars->Start(constraint));
  return job->AwaitStart();
}

Result<Generation> LlamaEngine::Impl::Generate(Session& session, std::span<const TokenId> rest,
                                               const GenerateOptions& generate) {
  ATTNDB_RETURN_IF_ERROR(BeginCall());
  const Clock::time_point start = Clock::now();
  ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<Reply> reply, BeginReply(generate));
  ATTNDB_RETURN_IF_ERROR(reply->AwaitGrammar());
  ATTNDB_RETURN_IF_ERROR(Prefill(session, rest, generate.prefill));
  Generation result;
  result.num_prefilled = rest.size();
  result.prefill_ms = MillisecondsSince(start);
  reply->SeePrompt(rest);

  Clock::time_point first_token;
  while (generate.max_tokens > 0) {
    ATTNDB_ASSIGN_OR_RETURN(const std::span<const float> logits, Logits(0));
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<FinishReason> end, reply->Next(logits));
    if (result.first_token_ms == 0) {
      result.first_token_ms = MillisecondsSince(start);
      first_token = Clock::now();
    } else if (result.second_token_ms == 0) {
      result.second_token_ms = MillisecondsSince(start);
    }
    if (end) {
      result.finish = *end;
      break;
    }
    ATTNDB_RETURN_IF_ERROR(Decode(session, reply->tokens().back(), generate.prefill.window));
    ++result.num_in_session;
  }
  if (result.num_in_session > 0) {
    result.decode_ms_per_token =
        MillisecondsSince(first_token) / static_cast<double>(result.num_in_session);
  }
  result.tokens = reply->tokens();
  result.text = reply->Finish();
  return result;
}

}  // namespace attndb::llama
