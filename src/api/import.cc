#include "api/import.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "api/database.h"
#include "storage/kv/kv_layout.h"

namespace attndb::internal {
namespace {

// Tokens that are sealed at a time.
constexpr uint64_t kPieceTokens = 4096;

// Appends tokens `range` of every layer, and offers their queries to the sample.
Status AppendPiece(SessionImpl* session, uint64_t num_tokens, TokenRange range,
                   ImportSource* source) {
  for (LayerId layer = 0; layer < session->spec().num_layers(); ++layer) {
    ATTNDB_ASSIGN_OR_RETURN(const LayerKv kv, source->Rows(layer, range));
    ATTNDB_RETURN_IF_ERROR(session->Append(layer, kv.k, kv.v));
    const uint64_t first_query = num_tokens - source->num_queries(layer);
    const TokenRange queried = {std::max(range.begin, first_query), range.end};
    if (queried.begin >= queried.end) continue;
    ATTNDB_ASSIGN_OR_RETURN(const TensorView q, source->Queries(layer, queried));
    session->SampleQueries(layer, q, queried.begin);
  }
  return Status::Ok();
}

// Where the next piece ends that begins at `begin`: at a cut at the latest.
uint64_t EndOfPiece(const ImportRequest& request, uint64_t begin) {
  uint64_t end = std::min<uint64_t>(begin + kPieceTokens, request.tokens.size());
  for (const Cut& cut : request.cuts) {
    if (cut.at > begin) end = std::min(end, cut.at);
  }
  return end;
}

// The session loses what left when there were as many tokens as it has.
Status FollowCuts(const ImportRequest& request, SessionImpl* session) {
  for (const Cut& cut : request.cuts) {
    if (cut.at == session->num_tokens()) ATTNDB_RETURN_IF_ERROR(session->Lose(cut));
  }
  return Status::Ok();
}

// From where the session is to the end. `has_checkpoint`: the session's context is one of ours.
Result<ContextId> ImportPieces(Database* database, SessionImpl* session,
                               const ImportRequest& request, ImportSource* source,
                               bool* has_checkpoint) {
  const std::span<const TokenId> tokens = request.tokens;
  for (;;) {
    const uint64_t begin = session->num_tokens();
    const uint64_t end = EndOfPiece(request, begin);
    if (begin < end) {
      ATTNDB_RETURN_IF_ERROR(AppendPiece(session, tokens.size(), {begin, end}, source));
    }
    ATTNDB_RETURN_IF_ERROR(FollowCuts(request, session));
    if (end < tokens.size() && end - session->chain().num_tokens() < kPieceTokens) continue;
    StoreOptions store;
    if (end == tokens.size()) store = request.store;
    store.drop_base = request.store.drop_base || *has_checkpoint;  // Our own, from the second on.
    Result<ContextId> id = database->Store(session, tokens.first(end), store);
    if (!id.ok() || end == tokens.size()) return id;
    *has_checkpoint = true;
    if (request.progress && !request.progress(end, tokens.size())) {
      return Status::Cancelled("import stopped after " + std::to_string(end) + " of " +
                               std::to_string(tokens.size()) + " tokens");
    }
  }
}

}  // namespace

Result<ContextId> ImportContext(Database* database, const ImportRequest& request,
                                ImportSource* source) {
  SessionOptions options;
  options.first_position = request.first_position;
  options.truncated = false;  // What is reused saw what the source says, up to the first cut.
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<SessionImpl> session,
                          database->OpenSession(request.tenant, *request.spec, request.tokens,
                                                std::numeric_limits<uint64_t>::max(), options));
  if (!request.cuts.empty() && session->num_tokens() >= request.cuts.front().at) {
    ATTNDB_RETURN_IF_ERROR(session->Crop(request.cuts.front().at - 1));
  }
  const uint64_t num_new = request.tokens.size() - session->num_tokens();
  ATTNDB_RETURN_IF_ERROR(database->store()->publisher()->CheckStore(
      request.tenant, request.store,
      num_new * storage::BytesPerToken(store::ShapeOf(session->spec()))));
  bool has_checkpoint = false;
  Result<ContextId> id = ImportPieces(database, session.get(), request, source, &has_checkpoint);
  if (!id.ok() && has_checkpoint) {
    // Nothing has changed: the caller has all of it still. If this fails too, an unnamed context
    // is left, which a later import of these tokens continues.
    (void)database->store()->publisher()->Drop(request.tenant,
                                               store::IdLabel(session->chain().context()));
  }
  if (!id.ok()) return id;
  const bool is_in_pieces = session->chain().entries().size() > 1;
  session.reset();  // It keeps the pieces.
  const uint64_t segment_tokens = database->options().import_segment_tokens;
  if (is_in_pieces && segment_tokens > kPieceTokens) {
    // The context is durable. Where memory or the disk has no room for a copy, it stays as it is.
    (void)database->store()->merger()->Compact(
        request.tenant, {.context = store::IdLabel(*id), .segment_tokens = segment_tokens});
  }
  return id;
}

}  // namespace attndb::internal
