#include "engines/llama/hooked_context.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "engines/llama/llama_log.h"

namespace attndb::llama {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Result<std::unique_ptr<HookedContext>> HookedContext::Make(const ModelSpec& spec,
                                                           const EngineOptions& options,
                                                           bool adapts, uint32_t vocab_size,
                                                           const ContextFactory& factory) {
  std::unique_ptr<HookedContext> hooked(new HookedContext(spec, options, adapts, vocab_size));
  if (adapts) hooked->choice_.emplace(options.num_threads);
  llama_context_params params = BaseContextParams(options.num_threads);
  params.n_ctx = options.ubatch_tokens;
  params.n_batch = options.ubatch_tokens;
  params.n_ubatch = options.ubatch_tokens;
  params.n_seq_max = options.max_sessions;
  // llama.cpp reserves a row for each sequence, however few tokens a batch takes.
  params.n_outputs_max =
      std::max(std::min(options.ubatch_tokens, kLogitRowsMax), options.max_sessions);
  hooked->hook_.Attach(&params);
  hooked->context_ = factory(params);
  if (hooked->context_ == nullptr) {
    return Status::ResourceExhausted("llama.cpp made no context: " + LoggedComplaints());
  }
  return hooked;
}

Status HookedContext::FillBatch(std::span<const BatchEntry> entries, bool all_logits) {
  for (size_t e = 0; e < entries.size(); ++e) {
    const BatchEntry& entry = entries[e];
    const uint64_t first = entry.session->num_tokens();
    const int64_t position = entry.session->next_position();
    if (static_cast<uint64_t>(position) + entry.tokens.size() >
        std::numeric_limits<llama_pos>::max()) {
      return Status::InvalidArgument("session at position " + std::to_string(position) +
                                     ": llama.cpp's positions end at 2^31");
    }
    rows_.push_back({.session = entry.session,
                     .first_row = static_cast<int64_t>(tokens_.size()),
                     .num_rows = static_cast<int64_t>(entry.tokens.size()),
                     .num_tokens = first + entry.tokens.size()});
    for (size_t i = 0; i < entry.tokens.size(); ++i) {
      tokens_.push_back(entry.tokens[i]);
      positions_.push_back(static_cast<llama_pos>(position + static_cast<int64_t>(i)));
      sequences_.push_back(static_cast<llama_seq_id>(e));
      wants_logits_.push_back(all_logits || i + 1 == entry.tokens.size() ? 1 : 0);
    }
  }
  num_sequences_.assign(tokens_.size(), 1);
  for (llama_seq_id& sequence : sequences_) sequence_pointers_.push_back(&sequence);
  return Status::Ok();
}

void HookedContext::ClearBatch() {
  tokens_.clear();
  positions_.clear();
  sequences_.clear();
  sequence_pointers_.clear();
  wants_logits_.clear();
  rows_.clear();
  logit_tokens_.clear();
}

Status HookedContext::CropBack(const SessionRows& rows, const Status& why) {
  const uint64_t before = rows.num_tokens - static_cast<uint64_t>(rows.num_rows);
  const Status crop = rows.session->Crop(before);
  return crop.ok() ? why : crop.WithContext("after: " + why.ToString());
}

Status HookedContext::Settle(Status status, std::vector<Status>* statuses) {
  llama_memory_clear(llama_get_memory(context_.get()), /*data=*/false);
  if (statuses != nullptr) statuses->clear();
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Status own = hook_.status_of(i);
    if (statuses == nullptr && status.ok()) status = own;
    if (statuses != nullptr) statuses->push_back(own.ok() ? own : CropBack(rows_[i], own));
  }
  if (status.ok()) return status;
  Status cropped = status;
  for (const SessionRows& rows : rows_) {
    if (Status crop = CropBack(rows, status); crop != status) cropped = std::move(crop);
  }
  return cropped;
}

int32_t HookedContext::Decode(const llama_batch& batch) {
  const auto num_rows = static_cast<uint64_t>(batch.n_tokens);
  if (choice_) {
    const auto num_threads = static_cast<int32_t>(choice_->Next(num_rows));
    llama_set_n_threads(context_.get(), num_threads, num_threads);
  }
  const Clock::time_point start = Clock::now();
  const int32_t result = llama_decode(context_.get(), batch);
  llama_synchronize(context_.get());
  const std::chrono::duration<double> time = Clock::now() - start;
  if (choice_ && result == 0) {
    choice_->Took({.num_rows = num_rows,
                   .seconds = time.count(),
                   .cores_given = hook_.thread_shares().total(),
                   .worst_share = hook_.thread_shares().worst()});
  }
  return result;
}

ThreadReport HookedContext::threads() const {
  return choice_ ? choice_->report() : ThreadReport{num_threads_, num_threads_, {}};
}

Status HookedContext::Run(std::span<const BatchEntry> entries, const RunOptions& options) {
  ClearBatch();
  ATTNDB_RETURN_IF_ERROR(FillBatch(entries, options.all_logits));
  const llama_batch batch = {.n_tokens = static_cast<int32_t>(tokens_.size()),
                             .token = tokens_.data(),
                             .embd = nullptr,
                             .pos = positions_.data(),
                             .n_seq_id = num_sequences_.data(),
                             .seq_id = sequence_pointers_.data(),
                             .logits = wants_logits_.data()};
  BeginLog();
  hook_.Begin(rows_, positions_, options.on_queries);
  const int32_t decode_result = Decode(batch);
  ATTNDB_RETURN_IF_ERROR(Settle(hook_.End(decode_result), options.statuses));
  for (size_t i = 0; i < wants_logits_.size(); ++i) {
    if (wants_logits_[i] != 0) logit_tokens_.push_back(static_cast<int32_t>(i));
  }
  return Status::Ok();
}

std::span<const float> HookedContext::LogitRow(size_t idx) const {
  const float* logits = llama_get_logits_ith(context_.get(), logit_tokens_[idx]);
  return {logits, vocab_size_};
}

EngineCacheUse HookedContext::CacheUse() const {
  EngineCacheUse use = {.num_cells = llama_n_ctx(context_.get()), .num_used = 0};
  const llama_memory_t memory = llama_get_memory(context_.get());
  const uint32_t num_sequences = llama_n_seq_max(context_.get());
  for (uint32_t i = 0; i < num_sequences; ++i) {
    const auto sequence = static_cast<llama_seq_id>(i);
    const llama_pos last = llama_memory_seq_pos_max(memory, sequence);  // -1 if it is empty.
    if (last < 0) continue;
    use.num_used += static_cast<uint32_t>(last - llama_memory_seq_pos_min(memory, sequence) + 1);
  }
  return use;
}

}  // namespace attndb::llama
