// Judging generated tokens by plain llama.cpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engines/llama/engine_impl.h"
#include "engines/llama/plain_context.h"
#include "engines/llama/sampler.h"

namespace attndb::llama {
namespace {

constexpr uint32_t kCellPad = 256;

struct Judged {
  std::span<const TokenId> prompt;
  std::span<const TokenId> generated;
  std::span<const TokenId> suppressed;  // Tokens that no reply of the model has.
  const PlainContext::KeepGoing& keep_going;
};

std::vector<float> Without(std::span<const TokenId> suppressed, std::span<const float> logits) {
  std::vector<float> allowed(logits.begin(), logits.end());
  for (const TokenId token : suppressed) {
    allowed[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
  }
  return allowed;
}

// Walks the tokens with plain llama.cpp; `other`, if any, is a context that differs in its kernels
// and runs beside it.
Status Compare(const Judged& judged, PlainContext& plain, PlainContext* other,
               CheckReport* report) {
  const auto& [prompt, generated, suppressed, keep_going] = judged;
  const Clock::time_point start = Clock::now();
  ATTNDB_RETURN_IF_ERROR(plain.Run(prompt, nullptr, keep_going));
  report->plain_prefill_ms = MillisecondsSince(start);
  report->plain_ms = report->plain_prefill_ms;
  if (other != nullptr) ATTNDB_RETURN_IF_ERROR(other->Run(prompt, nullptr, keep_going));
  for (size_t i = 0; i < generated.size(); ++i) {
    if (keep_going && !keep_going()) return Status::Cancelled("the comparison was stopped");
    ATTNDB_ASSIGN_OR_RETURN(const std::span<const float> logits, plain.Logits());
    const std::vector<float> allowed = Without(suppressed, logits);
    const TokenId best = ArgMax(allowed);
    const TokenId rival = best != generated[i] ? generated[i] : RunnerUp(allowed, best);
    const double gap = GapOf(logits, best, rival);
    double spread = 0;
    if (other != nullptr) {
      ATTNDB_ASSIGN_OR_RETURN(const std::span<const float> others, other->Logits());
      spread = std::abs(gap - GapOf(others, best, rival));
    }
    report->own_spread = std::max(report->own_spread, spread);
    if (best != generated[i]) {
      report->differences.push_back({i, generated[i], best, gap, spread});
    }
    ++report->num_compared;
    if (i + 1 == generated.size()) break;
    const Clock::time_point step = Clock::now();
    ATTNDB_RETURN_IF_ERROR(plain.Run(generated.subspan(i, 1)));
    report->plain_ms += MillisecondsSince(step);
    if (other != nullptr) ATTNDB_RETURN_IF_ERROR(other->Run(generated.subspan(i, 1)));
  }
  return Status::Ok();
}

}  // namespace

Result<CheckReport> LlamaEngine::CheckAgainstPlain(std::span<const TokenId> prompt,
                                                   std::span<const TokenId> generated,
                                                   const CheckOptions& check) const {
  ATTNDB_RETURN_IF_ERROR(impl_->tokenizer->CheckIds(generated));
  const size_t num_tokens = prompt.size() + generated.size();
  PlainOptions plain_options;
  plain_options.num_tokens =
      static_cast<uint32_t>((num_tokens + kCellPad - 1) / kCellPad * kCellPad);
  plain_options.kv_dtype = spec().kv_dtype;
  CheckReport report;
  for (bool spread = check.measure_spread;; spread = true) {
    report = CheckReport();
    ATTNDB_ASSIGN_OR_RETURN(const auto plain, OpenPlain(plain_options));
    std::unique_ptr<PlainContext> other;
    if (spread) {
      PlainOptions no_flash = plain_options;
      no_flash.flash_attention = false;
      ATTNDB_ASSIGN_OR_RETURN(other, OpenPlain(no_flash));
    }
    ATTNDB_RETURN_IF_ERROR(
        Compare({prompt, generated, impl_->tokenizer->Suppressed(), check.keep_going}, *plain,
                other.get(), &report));
    if (spread || report.equal()) return report;
  }
}

}  // namespace attndb::llama
