// Running: checks, prefill in ubatches, batches.
#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <string>

#include "attndb/units.h"
#include "engines/llama/engine_impl.h"

namespace attndb::llama {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sets the flag for as long as it lives.
class FlagScope {
 public:
  explicit FlagScope(bool* flag) : flag_(flag) { *flag_ = true; }
  ~FlagScope() { *flag_ = false; }
  FlagScope(const FlagScope&) = delete;
  FlagScope& operator=(const FlagScope&) = delete;

 private:
  bool* const flag_;
};

// Waits for what the plan of each layer says is waited for (await=1). Before the batch and not
// inside it: ggml's threads would spin meanwhile, and an object of a segment is made for all of its
// layers at once. What could not be made is read exactly, so its errors are none of the answer's.
Status AwaitDerived(Session* session, const std::function<bool()>& keep_going) {
  WaitOptions options;
  if (keep_going) options.progress = [&](uint64_t, uint64_t) { return keep_going(); };
  const auto num_layers = static_cast<LayerId>(session->spec().num_layers());
  for (LayerId layer = 0; layer < num_layers; ++layer) {
    if (!session->awaits_derived(layer)) continue;
    Status status = session->AwaitDerived(layer, options);
    if (status.code() == StatusCode::kInvalidArgument) return status;
    if (status.code() == StatusCode::kCancelled) return status;
  }
  return Status::Ok();
}

}  // namespace

Status LlamaEngine::Impl::CheckRun(const Session& session, std::span<const TokenId> tokens) const {
  if (tokens.empty()) return Status::InvalidArgument("no token to run");
  ATTNDB_RETURN_IF_ERROR(tokenizer->CheckIds(tokens));
  const ModelSpec& other = session.spec();
  if (other.fingerprint != spec.fingerprint) {
    return Status::InvalidArgument("the session is of model " + other.fingerprint +
                                   ", this engine runs " + spec.fingerprint);
  }
  if (other.kv_dtype != spec.kv_dtype || other.layers != spec.layers) {
    return Status::InvalidArgument("the session's layers or kv_dtype are not this engine's");
  }
  return Status::Ok();
}

Status LlamaEngine::Impl::RunPass(std::span<const BatchEntry> entries,
                                  const HookedContext::RunOptions& run) {
  ATTNDB_RETURN_IF_ERROR(weights_.Check());
  std::vector<uint64_t> held;
  for (const BatchEntry& entry : entries) held.push_back(entry.session->num_tokens());
  ATTNDB_RETURN_IF_ERROR(hooked_->Run(entries, run));
  Status status = weights_.Check();  // A pass may have run while they changed.
  if (status.ok()) return status;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (Status cropped = entries[i].session->Crop(held[i]); !cropped.ok()) status = cropped;
  }
  return status;
}

Status LlamaEngine::Impl::BeginCall() {
  if (in_prefill_) {
    return Status::FailedPrecondition("a callback of Prefill runs the engine that called it");
  }
  entry_rows_.clear();
  return Status::Ok();
}

Status LlamaEngine::Impl::Prefill(Session& session, std::span<const TokenId> tokens,
                                  const PrefillOptions& prefill) {
  ATTNDB_RETURN_IF_ERROR(BeginCall());
  const FlagScope scope(&in_prefill_);
  return RunPrefill(session, tokens, prefill);
}

Status LlamaEngine::Impl::RunPrefill(Session& session, std::span<const TokenId> tokens,
                                     const PrefillOptions& prefill) {
  ATTNDB_RETURN_IF_ERROR(CheckRun(session, tokens));
  const Clock::time_point start = Clock::now();
  const bool all_logits = prefill.on_logits != nullptr;
  const size_t step =
      all_logits ? std::min(options.ubatch_tokens, kLogitRowsMax) : options.ubatch_tokens;
  const HookedContext::RunOptions run = {
      .all_logits = all_logits, .on_queries = prefill.on_queries ? &prefill.on_queries : nullptr};
  for (size_t done = 0; done < tokens.size();) {
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t room,
                            MakeRoom(prefill.window, tokens.size() - done, &session));
    const auto part = tokens.subspan(done, std::min(step, room));
    const BatchEntry entry = {.session = &session, .tokens = part};
    ATTNDB_RETURN_IF_ERROR(RunPass({&entry, 1}, run));
    for (size_t i = 0; all_logits && i < part.size(); ++i) {
      prefill.on_logits(done + i, hooked_->LogitRow(i));
    }
    done += part.size();
    if (prefill.progress &&
        !prefill.progress({.tokens_done = done,
                           .tokens_total = tokens.size(),
                           .tokens_per_second =
                               static_cast<double>(done) / std::max(SecondsSince(start), 1e-9)})) {
      return Status::Cancelled("prefill stopped after " + FormatCount(done) + " of " +
                               Counted(tokens.size(), "token"));
    }
    if (prefill.checkpoint && done < tokens.size()) {
      ATTNDB_RETURN_IF_ERROR(prefill.checkpoint(done));
    }
  }
  entry_rows_.emplace_back(hooked_->num_logit_rows() - 1);
  return Status::Ok();
}

Status LlamaEngine::Impl::Decode(Session& session, TokenId token, const WindowOptions& window) {
  ATTNDB_RETURN_IF_ERROR(BeginCall());
  ATTNDB_RETURN_IF_ERROR(MakeRoom(window, 1, &session).status());
  const BatchEntry entry = {.session = &session, .tokens = {&token, 1}};
  return DecodeBatch({&entry, 1});
}

Status LlamaEngine::Impl::DecodeBatch(std::span<const BatchEntry> entries,
                                      std::vector<Status>* statuses) {
  ATTNDB_RETURN_IF_ERROR(BeginCall());
  if (entries.empty() || entries.size() > options.max_sessions) {
    return Status::InvalidArgument("batch of " + Counted(entries.size(), "session") +
                                   ", expected 1 to " + FormatCount(options.max_sessions));
  }
  size_t num_tokens = 0;
  std::set<const Session*> sessions;
  for (size_t i = 0; i < entries.size(); ++i) {
    ATTNDB_RETURN_IF_ERROR(
        CheckRun(*entries[i].session, entries[i].tokens).WithContext("entry " + std::to_string(i)));
    num_tokens += entries[i].tokens.size();
    if (!sessions.insert(entries[i].session).second) {
      return Status::InvalidArgument("entry " + std::to_string(i) + ": session twice in a batch");
    }
  }
  if (num_tokens > options.ubatch_tokens) {
    return Status::InvalidArgument("batch of " + Counted(num_tokens, "token") +
                                   ", expected at most " + FormatCount(options.ubatch_tokens));
  }
  for (const BatchEntry& entry : entries) {
    if (!options.awaits_derived || entry.tokens.size() != 1) continue;
    ATTNDB_RETURN_IF_ERROR(AwaitDerived(entry.session, options.keep_going));
  }
  ATTNDB_RETURN_IF_ERROR(RunPass(entries, {.statuses = statuses}));
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool ran = statuses == nullptr || (*statuses)[i].ok();
    entry_rows_.push_back(ran ? std::optional<size_t>(i) : std::nullopt);
  }
  return Status::Ok();
}

Result<std::span<const float>> LlamaEngine::Impl::Logits(size_t entry) const {
  if (entry < entry_rows_.size() && entry_rows_[entry]) {
    return hooked_->LogitRow(*entry_rows_[entry]);
  }
  const std::string asked = "no logits of entry " + std::to_string(entry) + ": ";
  if (entry_rows_.empty()) {
    return Status::FailedPrecondition(asked +
                                      "the engine has run nothing, or its last call failed");
  }
  if (entry < entry_rows_.size()) {
    return Status::FailedPrecondition(asked + "the entry failed in the engine's last call");
  }
  return Status::FailedPrecondition(asked + "the engine's last call had " +
                                    std::to_string(entry_rows_.size()));
}

}  // namespace attndb::llama
