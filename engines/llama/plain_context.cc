#include "engines/llama/plain_context.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "attndb/units.h"
#include "engines/llama/llama_log.h"
#include "engines/llama/plain_context_impl.h"

namespace attndb::llama {

Result<std::unique_ptr<PlainContext>> PlainContextBuilder::Make(const PlainOptions& options,
                                                                uint32_t num_threads,
                                                                const Tokenizer* tokenizer,
                                                                const ContextFactory& factory) {
  llama_context_params params = BaseContextParams(num_threads);
  params.n_ctx = options.num_tokens;
  params.n_batch = kPlainBatchTokens;
  params.n_ubatch = kPlainBatchTokens;
  // A copy comes in as a second sequence.
  params.n_seq_max = options.repeats ? 2 : 1;
  if (options.repeats) params.kv_unified = true;
  params.n_outputs_max = kLogitRowsMax;
  params.flash_attn_type =
      options.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = options.kv_dtype == DType::kFloat32    ? GGML_TYPE_F32
                  : options.kv_dtype == DType::kBFloat16 ? GGML_TYPE_BF16
                                                         : GGML_TYPE_F16;
  params.type_v = params.type_k;
  auto impl = std::make_unique<PlainContext::Impl>();
  impl->tokenizer = tokenizer;
  impl->context = factory(params);
  if (impl->context == nullptr) {
    return Status::ResourceExhausted("llama.cpp made no context of " +
                                     Counted(options.num_tokens, "token") + ": " +
                                     LoggedComplaints());
  }
  return std::unique_ptr<PlainContext>(new PlainContext(std::move(impl)));
}

PlainContext::PlainContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PlainContext::~PlainContext() = default;

Status PlainContext::Run(std::span<const TokenId> tokens, const OnLogits& on_logits,
                         const KeepGoing& keep_going) {
  impl_->has_logits = false;
  if (tokens.empty()) return Status::InvalidArgument("no token to run");
  ATTNDB_RETURN_IF_ERROR(impl_->tokenizer->CheckIds(tokens));
  const uint32_t capacity = llama_n_ctx(impl_->context.get());
  if (impl_->num_tokens + tokens.size() > capacity) {
    return Status::ResourceExhausted("plain context of " + Counted(capacity, "token") +
                                     ", needed " + FormatCount(impl_->num_tokens + tokens.size()));
  }
  BeginLog();
  const size_t step = on_logits ? kLogitRowsMax : kPlainBatchTokens;
  for (size_t done = 0; done < tokens.size(); done += step) {
    if (done > 0 && keep_going && !keep_going()) {
      return Status::Cancelled("plain llama.cpp stopped after " + FormatCount(done) + " of " +
                               Counted(tokens.size(), "token"));
    }
    const auto part = tokens.subspan(done, std::min(step, tokens.size() - done));
    ATTNDB_RETURN_IF_ERROR(
        impl_->RunBatch(part, on_logits != nullptr, done + part.size() == tokens.size()));
    if (!on_logits) continue;
    for (size_t i = 0; i < part.size(); ++i) {
      on_logits(done + i, impl_->LogitsAt(static_cast<int32_t>(i)));
    }
  }
  impl_->has_logits = true;
  return Status::Ok();
}

Status PlainContext::Impl::RunBatch(std::span<const TokenId> part, bool all_logits,
                                    bool last_logits) {
  std::vector<llama_token> ids(part.begin(), part.end());
  std::vector<int8_t> wants(part.size(), all_logits ? 1 : 0);
  if (last_logits) wants.back() = 1;
  llama_batch batch = llama_batch_get_one(ids.data(), static_cast<int32_t>(ids.size()));
  batch.logits = wants.data();
  const int32_t result = llama_decode(context.get(), batch);
  llama_synchronize(context.get());
  if (result != 0) {
    return Status::Internal("llama_decode returned " + std::to_string(result) + ": " +
                            LoggedComplaints());
  }
  num_tokens += part.size();
  return Status::Ok();
}

std::span<const float> PlainContext::Impl::LogitsAt(int32_t idx) const {
  return {llama_get_logits_ith(context.get(), idx), tokenizer->vocab_size()};
}

Result<std::span<const float>> PlainContext::Logits() const {
  if (impl_->has_logits) return impl_->LogitsAt(-1);
  return Status::FailedPrecondition("no logits: the context has run nothing, or its Run failed");
}

uint64_t PlainContext::num_tokens() const { return impl_->num_tokens; }

Status PlainContext::Repeat(uint32_t num_copies) {
  llama_context* const context = impl_->context.get();
  llama_memory_t const memory = llama_get_memory(context);
  std::vector<uint8_t> state(llama_state_seq_get_size(context, 0));
  BeginLog();
  const size_t size = llama_state_seq_get_data(context, state.data(), state.size(), 0);
  for (uint32_t i = 0; i < num_copies; ++i) {
    if (size == 0 || llama_state_seq_set_data(context, state.data(), size, 1) == 0) {
      return Status::ResourceExhausted("llama.cpp took no copy of " + std::to_string(size) +
                                       " bytes: " + LoggedComplaints());
    }
    llama_memory_seq_cp(memory, 1, 0, -1, -1);
    llama_memory_seq_rm(memory, 1, -1, -1);
  }
  return Status::Ok();
}

Status PlainContext::DropOldest(uint64_t keep_first, uint64_t n) {
  llama_memory_t const memory = llama_get_memory(impl_->context.get());
  const auto begin = static_cast<llama_pos>(keep_first);
  const auto end = static_cast<llama_pos>(keep_first + n);
  if (!llama_memory_can_shift(memory) || !llama_memory_seq_rm(memory, 0, begin, end)) {
    return Status::Internal("llama.cpp can't shift this model's cache");
  }
  llama_memory_seq_add(memory, 0, end, -1, begin - end);
  impl_->num_tokens -= n;
  return Status::Ok();
}

void PlainContext::Crop(uint64_t num_tokens) {
  llama_memory_seq_rm(llama_get_memory(impl_->context.get()), 0, static_cast<llama_pos>(num_tokens),
                      -1);
  impl_->num_tokens = std::min(impl_->num_tokens, num_tokens);
}

}  // namespace attndb::llama
