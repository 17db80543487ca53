// Database: checks the room for tokens that a caller is about to compute.
#include <algorithm>
#include <string>

#include "api/database.h"
#include "session/query_sample.h"
#include "session/view_check.h"
#include "storage/kv/kv_layout.h"
#include "storage/kv/segment_layout.h"

namespace attndb::internal {
namespace {

using Bytes = store::Publisher::RoomRequest::Bytes;

// Returns the bytes of tokens [begin, end). New tokens start at `first_new` and are split into
// segments of `checkpoint_tokens`. Earlier tokens count towards the first segment, without sampled
// queries.
Result<Bytes> BytesOf(const ModelSpec& spec, double query_sample, const RoomOptions& options,
                      TokenRange tokens, uint64_t first_new) {
  const storage::KvShape shape = store::ShapeOf(spec);
  ATTNDB_RETURN_IF_ERROR(storage::ValidateShape(shape));
  const uint64_t piece =
      options.checkpoint_tokens == 0 ? tokens.end - first_new : options.checkpoint_tokens;
  Bytes bytes;
  for (uint64_t begin = tokens.begin, end = first_new; begin < tokens.end; begin = end) {
    end += std::min(piece, tokens.end - end);
    const uint64_t first_query = std::max(begin, first_new);
    const CheckedSize file_bytes = storage::SegmentFileBytes(
        shape, end - begin,
        QuerySample::Count(spec, query_sample,
                           options.first_position + static_cast<int64_t>(first_query),
                           end - first_query));
    const CheckedSize sum = CheckedAdd(bytes.file_bytes, file_bytes);
    if (!sum) {
      return Status::InvalidArgument(std::to_string(end - begin) +
                                     " tokens are more than a segment holds");
    }
    bytes.file_bytes = *sum;
  }
  // No overflow: the files take more bytes.
  bytes.kv_bytes = (tokens.end - tokens.begin) * storage::BytesPerToken(shape);
  return bytes;
}

}  // namespace

Result<RoomReport> Database::CheckRoom(const std::string& tenant, const ModelSpec& spec,
                                       std::span<const TokenId> tokens,
                                       const RoomOptions& options) {
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  ATTNDB_RETURN_IF_ERROR(CheckPrompt(tokens));
  ATTNDB_RETURN_IF_ERROR(CheckFirstPosition(options.first_position));
  const ModelSpec resolved = Resolve(spec);
  SessionOptions session;
  session.first_position = options.first_position;
  store::Publisher::RoomRequest request = {
      .tenant = tenant, .prefix = {}, .bytes_from = {}, .wait = options.wait};
  ATTNDB_ASSIGN_OR_RETURN(
      request.prefix,
      store_->lookup()->PeekPrefix(tenant, resolved, tokens.first(tokens.size() - 1), session));
  RoomReport report;
  report.num_reused = request.prefix.chain.tokens.size();
  request.bytes_from = [&](uint64_t first_token) {
    return BytesOf(resolved, options_.query_sample, options, {first_token, tokens.size()},
                   report.num_reused);
  };
  ATTNDB_ASSIGN_OR_RETURN(store::Publisher::Room room,
                          store_->publisher()->CheckRoom(std::move(request)));
  report.new_bytes = room.new_bytes;
  report.evicted = std::move(room.evicted);
  return report;
}

}  // namespace attndb::internal
