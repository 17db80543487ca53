#include "api/import.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "api/database.h"
#include "attndb/units.h"
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

// The end of the piece that starts at `begin`. A piece does not cross a cut.
uint64_t EndOfPiece(const ImportRequest& request, uint64_t begin) {
  uint64_t end = std::min<uint64_t>(begin + kPieceTokens, request.tokens.size());
  for (const Cut& cut : request.cuts) {
    if (cut.at > begin) end = std::min(end, cut.at);
  }
  return end;
}

// Applies the cuts that were made when the history had as many tokens as the session.
Status FollowCuts(const ImportRequest& request, SessionImpl* session) {
  for (const Cut& cut : request.cuts) {
    if (cut.at == session->num_tokens()) ATTNDB_RETURN_IF_ERROR(session->Lose(cut));
  }
  return Status::Ok();
}

// Segments of the imported pieces. No context has them until all pieces are stored, so a failed
// import leaves the store unchanged, and no session can have continued a removed piece.
class Pieces {
 public:
  explicit Pieces(Database* database) : database_(database) {}
  ~Pieces() { database_->store()->publisher()->Abandon(sealed_); }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  Status Seal(SessionImpl* session, std::span<const TokenId> tokens) {
    ATTNDB_ASSIGN_OR_RETURN(store::SegmentRecord piece, database_->Seal(session, tokens, sealed_));
    sealed_.push_back(std::move(piece));
    return Status::Ok();
  }
  Result<ContextNumber> Store(SessionImpl* session, std::span<const TokenId> tokens,
                              const StoreOptions& options) {
    Result<ContextNumber> number = database_->StoreSealed(session, tokens, sealed_, options);
    if (number.ok()) sealed_.clear();
    return number;
  }

 private:
  Database* const database_;
  std::vector<store::SegmentRecord> sealed_;
};

// From where the session is to the end.
Result<ContextNumber> ImportPieces(Database* database, SessionImpl* session,
                                   const ImportRequest& request, ImportSource* source) {
  const std::span<const TokenId> tokens = request.tokens;
  Pieces pieces(database);
  uint64_t num_sealed = session->num_tokens();
  for (;;) {
    const uint64_t begin = session->num_tokens();
    const uint64_t end = EndOfPiece(request, begin);
    if (begin < end) {
      ATTNDB_RETURN_IF_ERROR(AppendPiece(session, tokens.size(), {begin, end}, source));
    }
    ATTNDB_RETURN_IF_ERROR(FollowCuts(request, session));
    if (end == tokens.size()) return pieces.Store(session, tokens, request.store);
    if (end - num_sealed < kPieceTokens) continue;
    ATTNDB_RETURN_IF_ERROR(pieces.Seal(session, tokens.first(end)));
    num_sealed = end;
    if (request.progress && !request.progress(end, tokens.size())) {
      return Status::Cancelled("import stopped after " + FormatCount(end) + " of " +
                               Counted(tokens.size(), "token"));
    }
  }
}

// Stops sharing a part of a segment, of at most `most_tokens` tokens (Publisher::SharesPart),
// because the source has its rows. Returns whether it did.
Result<bool> LetGoOfPart(Database* database, const ImportRequest& request, uint64_t most_tokens,
                         SessionImpl* session) {
  const SessionChain& chain = session->chain();
  if (!database->store()->publisher()->SharesPart(request.tenant, chain.context(), chain.entries(),
                                                  most_tokens)) {
    return false;
  }
  const uint64_t num_shared = chain.entries().back().num_tokens_used;
  ATTNDB_RETURN_IF_ERROR(session->Crop(session->num_tokens() - num_shared));
  return true;
}

// Checks that the store takes the tokens that are not shared.
Status CheckRoom(Database* database, const ImportRequest& request, const SessionImpl& session) {
  const uint64_t num_new = request.tokens.size() - session.num_tokens();
  return database->store()->publisher()->CheckStore(
      {.tenant = request.tenant,
       .tokens = {request.tokens.begin(), request.tokens.end()},
       .cuts = {request.cuts.begin(), request.cuts.end()},
       .chain = session.chain().entries(),
       .options = request.store},
      num_new * storage::BytesPerToken(store::ShapeOf(session.spec())));
}

}  // namespace

Result<ContextNumber> ImportContext(Database* database, const ImportRequest& request,
                                    ImportSource* source) {
  SessionOptions options;
  options.first_position = request.first_position;
  // Reused tokens must have seen what the source describes, up to the first cut.
  options.truncated = false;
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<SessionImpl> session,
                          database->OpenSession(request.tenant, *request.spec, request.tokens,
                                                std::numeric_limits<uint64_t>::max(), options));
  if (!request.cuts.empty() && session->num_tokens() >= request.cuts.front().at) {
    ATTNDB_RETURN_IF_ERROR(session->Crop(request.cuts.front().at - 1));
  }
  ATTNDB_RETURN_IF_ERROR(
      LetGoOfPart(database, request, store::Publisher::kMinShare - 1, session.get()).status());
  Status room = CheckRoom(database, request, *session);
  if (room.code() == StatusCode::kResourceExhausted) {
    ATTNDB_ASSIGN_OR_RETURN(const bool has_let_go,
                            LetGoOfPart(database, request, UINT64_MAX, session.get()));
    if (has_let_go) room = CheckRoom(database, request, *session);
  }
  ATTNDB_RETURN_IF_ERROR(room);
  ATTNDB_ASSIGN_OR_RETURN(const ContextNumber number,
                          ImportPieces(database, session.get(), request, source));
  const bool is_in_pieces = session->chain().entries().size() > 1;
  session.reset();  // It keeps the pieces.
  const uint64_t segment_tokens = database->options().import_segment_tokens;
  if (is_in_pieces && segment_tokens > kPieceTokens) {
    // The context is durable. Where memory or the disk has no room for a copy, it stays as it is.
    (void)database->store()->merger()->Compact(
        request.tenant, {.context = store::NumberLabel(number), .segment_tokens = segment_tokens});
  }
  return number;
}

}  // namespace attndb::internal
