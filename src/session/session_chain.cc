#include "session/session_chain.h"

#include <algorithm>
#include <string>
#include <utility>

#include "attndb/units.h"
#include "common/check.h"

namespace attndb::internal {
namespace {

// Cuts the entries to their first tokens. REQUIRES: they have as many.
void Cut(uint64_t surplus, std::vector<ChainEntry>* entries) {
  while (surplus > 0) {
    ChainEntry& last = entries->back();
    const uint64_t cut = std::min(surplus, last.num_tokens_used);
    last.num_tokens_used -= cut;
    surplus -= cut;
    if (last.num_tokens_used == 0) entries->pop_back();
  }
}

}  // namespace

uint64_t HeldChain::num_tokens() const {
  uint64_t num_tokens = 0;
  for (const ChainEntry& entry : entries) num_tokens += entry.num_tokens_used;
  return num_tokens;
}

SessionChain::SessionChain(Contents contents) : contents_(std::move(contents)) {
  ATTNDB_CHECK(num_tokens() == contents_.held.num_tokens());
}

SessionChain::Contents SessionChain::Fork(std::shared_ptr<const void> hold) const {
  Contents fork = contents_;
  if (!is_over_many()) fork.held.hold = std::move(hold);
  return fork;
}

Status SessionChain::Load() const {
  for (const ChainEntry& entry : entries()) {
    for (LayerId layer = 0; layer < entry.segment->shape().layers.size(); ++layer) {
      const Result<storage::LayerPin> pin =
          entry.segment->PinLayer(layer, entry.first_token + entry.num_tokens_used);
      if (pin.status().code() == StatusCode::kResourceExhausted) return Status::Ok();
      ATTNDB_RETURN_IF_ERROR(pin.status());
    }
  }
  return Status::Ok();
}

uint64_t SessionChain::resident_bytes() const {
  uint64_t bytes = 0;
  for (const ChainEntry& entry : entries()) bytes += entry.segment->resident_bytes();
  return bytes;
}

Status SessionChain::CheckTokens(std::span<const TokenId> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0) {
      return Status::InvalidArgument("token " + std::to_string(i) + " has id " +
                                     std::to_string(tokens[i]) + ", expected 0 or more");
    }
    if (i < num_tokens() && tokens[i] != this->tokens()[i]) {
      return Status::InvalidArgument("token " + std::to_string(i) + " has id " +
                                     std::to_string(tokens[i]) + ", but the stored prefix has " +
                                     std::to_string(this->tokens()[i]) + " there");
    }
  }
  return Status::Ok();
}

Status SessionChain::CheckIsOnePrompt() const {
  if (!is_over_many()) return Status::Ok();
  return Status::FailedPrecondition("the session is over " + Counted(contexts().size(), "context") +
                                    " that did not see each other: its tokens are not one prompt");
}

Status SessionChain::CheckCrop(uint64_t num_tokens) const {
  if (num_tokens >= this->num_tokens() || !is_over_many()) return Status::Ok();
  return Status::FailedPrecondition("crop to " + Counted(num_tokens, "token") +
                                    ", but the session holds " + FormatCount(contexts().size()) +
                                    " whole contexts of " + Counted(this->num_tokens(), "token") +
                                    "; expected at least as many");
}

void SessionChain::Crop(uint64_t num_tokens) {
  ATTNDB_CHECK(num_tokens <= this->num_tokens());
  Cut(this->num_tokens() - num_tokens, &contents_.held.entries);
  contents_.tokens.resize(num_tokens);
}

void SessionChain::Reset() { contents_ = {.first_position = first_position()}; }

HeldChain SessionChain::MoveTo(HeldChain held, std::span<const TokenId> tokens) {
  const uint64_t num_held = held.num_tokens();
  ATTNDB_CHECK(num_held >= tokens.size() && tokens.size() >= num_tokens());
  Cut(num_held - tokens.size(), &held.entries);
  std::swap(contents_.held, held);
  contents_.tokens.assign(tokens.begin(), tokens.end());
  return held;
}

std::vector<ChainEntry> SessionChain::Replace(std::vector<ChainEntry> entries) {
  std::swap(contents_.held.entries, entries);
  return entries;
}

}  // namespace attndb::internal
