#include "store/fork_sharing.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "store/catalog/cut_bytes.h"
#include "store/catalog/prefix_index.h"
#include "store/part_source.h"
#include "store/segment_registry.h"

namespace attndb::store {

std::shared_ptr<storage::SegmentSource> PartOfTail(const StoreRequest& request, TokenRange tokens) {
  if (tokens.begin == tokens.end) return nullptr;
  const TokenRange part = {tokens.begin - request.num_stored, tokens.end - request.num_stored};
  return std::make_shared<PartSource>(request.tail, ShapeOf(request.spec), part);
}

std::optional<StoreRequest> ForkSharing::Beside(const StoreRequest& request) const {
  if (!request.sealed.empty()) return {};
  std::vector<ForkPoint::Stored> found;
  for (const SharedFork& fork : request.forks) {
    for (const ForkPoint::Stored& stored : fork.point->stored()) {
      const uint64_t num_tokens = std::min(fork.num_tokens, stored.num_tokens);
      if (num_tokens < request.num_stored + kBlockTokens) continue;
      found.push_back({stored.context, num_tokens});
    }
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &ForkPoint::Stored::num_tokens);
  for (const ForkPoint::Stored& stored : found) {
    if (std::optional<StoreRequest> beside = Behind(request, stored)) return beside;
  }
  return {};
}

std::optional<StoreRequest> ForkSharing::Behind(const StoreRequest& request,
                                                const ForkPoint::Stored& stored) const {
  const std::span<const TokenId> tokens = std::span(request.tokens).first(stored.num_tokens);
  const Result<PrefixMatch> match = catalog_->contexts()->CommonPrefix(stored.context, tokens);
  if (!match.ok() || match->num_tokens < tokens.size()) return {};
  if (match->cuts != CutsWithin(request.cuts, tokens.size())) return {};
  Result<std::vector<storage::ChainEntry>> chain =
      uses_->OpenContext(stored.context, tokens.size(), request.chain);
  if (!chain.ok() || chain->empty()) return {};
  uint64_t num_tokens = tokens.size();
  const storage::ChainEntry& last = chain->back();
  const bool is_part = last.num_tokens_used < last.segment->num_tokens();
  if (is_part && last.num_tokens_used < kBlockTokens) {
    num_tokens -= last.num_tokens_used;
    chain->pop_back();
  }
  if (num_tokens < request.num_stored + kBlockTokens) return {};
  StoreRequest beside = request;
  beside.chain = *std::move(chain);
  beside.num_stored = num_tokens;
  beside.num_beside = num_tokens - request.num_stored;
  beside.tail = PartOfTail(request, {num_tokens, request.tokens.size()});
  return beside;
}

std::optional<uint64_t> ForkSharing::ForkOf(const StoreRequest& request) {
  if (!request.sealed.empty()) return {};
  std::optional<uint64_t> num_tokens;
  for (const SharedFork& fork : request.forks) {
    if (fork.num_tokens < request.num_stored + kBlockTokens || !fork.point->is_forked()) continue;
    if (fork.num_tokens < request.tokens.size()) num_tokens = fork.num_tokens;
  }
  return num_tokens;
}

void ForkSharing::NoteStored(const StoreRequest& request, ContextId context) {
  for (const SharedFork& fork : request.forks) {
    fork.point->NoteStored({context, fork.num_tokens});
  }
}

}  // namespace attndb::store
