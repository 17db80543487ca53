#include "bench/index/index_head.h"

#include <algorithm>

namespace attndb::bench {
namespace {

// Queries come from so many last tokens, or half of those that there is q of.
constexpr uint64_t kTail = 2048;
constexpr uint64_t kChunk = 4096;

// Copies heads [first, first + count) of rows [rows, heads, dim] to the end of `to`.
void TakeHeads(const std::vector<float>& rows, uint32_t heads, uint32_t dim, uint32_t first,
               uint32_t count, std::vector<float>* to) {
  const size_t row = size_t{heads} * dim;
  for (size_t at = size_t{first} * dim; at < rows.size(); at += row) {
    to->insert(to->end(), rows.begin() + static_cast<std::ptrdiff_t>(at),
               rows.begin() + static_cast<std::ptrdiff_t>(at + size_t{count} * dim));
  }
}

class HeadReader {
 public:
  HeadReader(HeadSource* source, const HeadPlace& place)
      : source_(*source),
        place_(place),
        layer_(source->info().layer(place.layer_index)),
        group_(layer_.group_size()) {}

  Status ReadKv(TokenRange range, IndexHead* head) {
    for (uint64_t begin = range.begin; begin < range.end; begin += kChunk) {
      const TokenRange piece = {begin, std::min(begin + kChunk, range.end)};
      const size_t rows = piece.end - piece.begin;
      std::vector<float> k(rows * layer_.num_kv_heads * layer_.head_dim);
      std::vector<float> v(rows * layer_.num_kv_heads * layer_.v_head_dim);
      ATTNDB_RETURN_IF_ERROR(source_.ReadKv(place_.layer_index, piece, k.data(), v.data()));
      TakeHeads(k, layer_.num_kv_heads, layer_.head_dim, place_.kv_head, 1, &head->k);
      TakeHeads(v, layer_.num_kv_heads, layer_.v_head_dim, place_.kv_head, 1, &head->v);
    }
    return Status();
  }

  Status ReadQueries(TokenRange range, std::vector<float>* to) {
    for (uint64_t begin = range.begin; begin < range.end; begin += kChunk) {
      const TokenRange piece = {begin, std::min(begin + kChunk, range.end)};
      std::vector<float> q((piece.end - piece.begin) * layer_.num_q_heads * layer_.head_dim);
      ATTNDB_RETURN_IF_ERROR(source_.ReadQueries(place_.layer_index, piece, q.data()));
      TakeHeads(q, layer_.num_q_heads, layer_.head_dim, place_.kv_head * group_, group_, to);
    }
    return Status();
  }

 private:
  HeadSource& source_;
  const HeadPlace& place_;
  const LayerSpec& layer_;
  const uint32_t group_;
};

// The tokens whose q is searched for.
Result<TokenRange> Asked(const HeadInfo& info, uint64_t prefix_tokens) {
  const uint64_t num_asked = std::min(kTail, info.num_queries / 2);
  const uint64_t least = num_asked + IndexHead::kSink + IndexHead::kWindow + 1;
  if (num_asked == 0 || info.num_tokens < least) {
    return Status::InvalidArgument(
        "expected q of 2 tokens or more, and more tokens than sinks, window and those; found " +
        std::to_string(info.num_queries) + " and " + std::to_string(info.num_tokens));
  }
  if (prefix_tokens == 0) return TokenRange{info.num_tokens - num_asked, info.num_tokens};
  if (info.num_queries < info.num_tokens || prefix_tokens > info.num_tokens - num_asked) {
    return Status::InvalidArgument(
        "a prefix of " + std::to_string(prefix_tokens) + " tokens is asked for by the q of the " +
        std::to_string(num_asked) + " that follow it, and graphs learn from all; found " +
        std::to_string(info.num_tokens) + " tokens and q of the last " +
        std::to_string(info.num_queries));
  }
  return TokenRange{prefix_tokens, prefix_tokens + num_asked};
}

}  // namespace

Result<IndexHead> IndexHead::Read(HeadSource* source, const HeadPlace& place, uint32_t num_queries,
                                  uint64_t prefix_tokens) {
  const HeadInfo& info = source->info();
  ATTNDB_ASSIGN_OR_RETURN(const TokenRange asked, Asked(info, prefix_tokens));
  const uint64_t num_asked = asked.end - asked.begin;
  LayerSpec layer = info.layer(place.layer_index);
  layer.num_q_heads = layer.group_size();
  layer.num_kv_heads = 1;
  IndexHead head;
  head.name = place.name;
  head.spec = ModelSpec::Uniform(1, layer, info.model.kv_dtype, "attndb-bench " + place.name);
  head.num_tokens = info.num_tokens - num_asked;
  HeadReader reader(source, place);
  const uint64_t first_query = info.num_tokens - info.num_queries;
  for (const TokenRange kept : {TokenRange{0, asked.begin}, {asked.end, info.num_tokens}}) {
    ATTNDB_RETURN_IF_ERROR(reader.ReadKv(kept, &head));
    ATTNDB_RETURN_IF_ERROR(
        reader.ReadQueries({std::max(kept.begin, first_query), kept.end}, &head.train));
  }
  const uint64_t num_test = std::min<uint64_t>(num_queries, num_asked);
  for (uint64_t i = 0; i < num_test; ++i) {
    const uint64_t token = asked.begin + i * num_asked / num_test;
    ATTNDB_RETURN_IF_ERROR(reader.ReadQueries({token, token + 1}, &head.test));
  }
  return head;
}

}  // namespace attndb::bench
