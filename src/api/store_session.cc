// Database: a session's tail becomes durable, while the caller waits or behind the session.
#include <future>
#include <utility>

#include "api/database.h"

namespace attndb::internal {
namespace {

// The request that makes the session's tokens a context.
Result<store::StoreRequest> RequestOf(SessionImpl* session, std::span<const TokenId> tokens,
                                      const StoreOptions& options,
                                      std::span<const store::SegmentRecord> sealed,
                                      bool in_background = false) {
  ATTNDB_ASSIGN_OR_RETURN(SessionSnapshot snapshot, session->Snapshot(tokens, in_background));
  return store::StoreRequest{.tenant = std::move(snapshot.tenant),
                             .spec = std::move(snapshot.spec),
                             .tokens = {tokens.begin(), tokens.end()},
                             .cuts = std::move(snapshot.cuts),
                             .first_position = snapshot.first_position,
                             .base = snapshot.base,
                             .chain = std::move(snapshot.chain),
                             .num_stored = snapshot.num_stored,
                             .sealed = {sealed.begin(), sealed.end()},
                             .tail = std::move(snapshot.tail),
                             .options = options,
                             .forks = std::move(snapshot.forks)};
}

HeldChain HeldOf(store::Stored stored) {
  return {stored.context, stored.number, std::move(stored.chain), std::move(stored.hold)};
}

}  // namespace

Result<ContextNumber> Database::Store(SessionImpl* session, std::span<const TokenId> tokens,
                                      const StoreOptions& options) {
  return StoreSealed(session, tokens, {}, options);
}

Result<store::SegmentRecord> Database::Seal(SessionImpl* session, std::span<const TokenId> tokens,
                                            std::span<const store::SegmentRecord> sealed) {
  ATTNDB_ASSIGN_OR_RETURN(store::StoreRequest request, RequestOf(session, tokens, {}, sealed));
  ATTNDB_ASSIGN_OR_RETURN(store::Sealed piece, store_->publisher()->Seal(request));
  std::vector<storage::ChainEntry> chain = std::move(request.chain);
  chain.push_back({std::move(piece.segment), piece.record.num_tokens});
  const Status moved =
      session->MoveTo({request.base, session->chain().number(), std::move(chain), nullptr}, tokens)
          .status();
  if (moved.ok()) return std::move(piece.record);
  store_->publisher()->Abandon(std::span(&piece.record, 1));
  return moved;
}

Result<ContextNumber> Database::StoreSealed(SessionImpl* session, std::span<const TokenId> tokens,
                                            std::span<const store::SegmentRecord> sealed,
                                            const StoreOptions& options) {
  ATTNDB_RETURN_IF_ERROR(store_->merger()->CheckMayWait("store"));
  ATTNDB_ASSIGN_OR_RETURN(store::StoreRequest request, RequestOf(session, tokens, options, sealed));
  ATTNDB_ASSIGN_OR_RETURN(store::Stored stored, store_->publisher()->Store(request));
  request = {};
  const ContextNumber number = stored.number;
  if (stored.chain.empty()) return number;
  ATTNDB_RETURN_IF_ERROR(session->MoveTo(HeldOf(std::move(stored)), tokens).status());
  store_->uses()->Sweep();  // The merged segments have lost their holder.
  return number;
}

Result<std::shared_future<Result<ContextId>>> Database::StoreAsync(SessionImpl* session,
                                                                   std::span<const TokenId> tokens,
                                                                   const StoreOptions& options) {
  ATTNDB_RETURN_IF_ERROR(store_->merger()->CheckMayWait("store"));
  ATTNDB_ASSIGN_OR_RETURN(store::StoreRequest request,
                          RequestOf(session, tokens, options, {}, /*in_background=*/true));
  // The session moves to the result `held`. The caller may keep `id` for longer than the store
  // lives.
  auto held = std::make_shared<std::promise<Result<HeldChain>>>();
  auto id = std::make_shared<std::promise<Result<ContextId>>>();
  session->AwaitStore({held->get_future(), {tokens.begin(), tokens.end()}});
  std::shared_future<Result<ContextId>> pending = id->get_future().share();
  store_->publisher()->StoreLater(std::move(request), [held = std::move(held), id = std::move(id)](
                                                          Result<store::Stored> stored) mutable {
    Result<ContextId> context = stored.status();
    if (stored.ok()) context = PublicId(stored->number);
    if (stored.ok()) {
      held->set_value(HeldOf(*std::move(stored)));
    } else {
      held->set_value(std::move(stored).status());
    }
    held.reset();  // Destroys an unused result while the store still exists.
    id->set_value(std::move(context));
  });
  return pending;
}

}  // namespace attndb::internal
