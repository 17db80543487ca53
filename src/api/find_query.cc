#include "api/find_query.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "attndb/units.h"
#include "kernels/convert.h"
#include "kernels/layout.h"
#include "session/strided_rows.h"
#include "session/view_check.h"

namespace attndb::internal {
namespace {

constexpr int64_t kMaxQuestionTokens = 65536;

Status CheckHeads(const ModelSpec& spec, const FindQuery& query) {
  if (query.heads.empty() || query.heads.size() != query.q.size()) {
    return Status::InvalidArgument("q of " + Counted(query.q.size(), "head") + ", expected " +
                                   (query.heads.empty()
                                        ? "1 or more heads"
                                        : "one for each of " + FormatCount(query.heads.size())));
  }
  std::set<std::pair<LayerId, uint32_t>> seen;
  for (const FindHead& head : query.heads) {
    ATTNDB_RETURN_IF_ERROR(CheckLayer(head.layer, spec.num_layers()));
    const uint32_t num_q_heads = spec.layers[head.layer].num_q_heads;
    const std::string name =
        "layer " + std::to_string(head.layer) + ": q head " + std::to_string(head.q_head);
    if (head.q_head >= num_q_heads) {
      return Status::InvalidArgument(name + ", expected 0 to " + std::to_string(num_q_heads - 1));
    }
    if (!seen.insert({head.layer, head.q_head}).second) {
      return Status::InvalidArgument(name + " is named twice");
    }
  }
  return Status::Ok();
}

Status CheckRows(const ModelSpec& spec, const FindQuery& query) {
  for (size_t i = 0; i < query.q.size(); ++i) {
    const LayerId layer = query.heads[i].layer;
    ATTNDB_RETURN_IF_ERROR(CheckInput("q", layer, query.q[i], 1, spec.layers[layer].head_dim));
    const int64_t num_tokens = query.q.front().rows();
    if (query.q[i].rows() != num_tokens || num_tokens > kMaxQuestionTokens) {
      return Status::InvalidArgument(
          "layer " + std::to_string(layer) + ": q has " + RowsText(query.q[i].rows()) +
          ", expected " + RowsText(std::min(num_tokens, kMaxQuestionTokens)) +
          (num_tokens > kMaxQuestionTokens ? " at most" : ", as of the first head"));
    }
  }
  return CheckFirstPosition(query.first_position);
}

// Rows as float32 in layout half, each padded with zeros.
Result<std::vector<float>> RowsOf(const LayerSpec& layer, const FindHead& head,
                                  const TensorView& q) {
  const auto num_rows = static_cast<size_t>(q.rows());
  const size_t dim = layer.head_dim;
  std::vector<float> packed(num_rows * dim);
  std::vector<std::byte> scratch;
  const kernels::ConvertReport report =
      GatherRows(q, {.head = 0, .first_row = 0, .num_rows = num_rows}, DType::kFloat32,
                 reinterpret_cast<std::byte*>(packed.data()), &scratch);
  if (report.nonfinite) {
    return Status::InvalidArgument("layer " + std::to_string(head.layer) + ": q head " +
                                   std::to_string(head.q_head) +
                                   " has NaN or Inf, expected finite numbers");
  }
  const size_t stride = kernels::RowElements(dim);
  std::vector<float> rows(num_rows * stride);
  for (size_t row = 0; row < num_rows; ++row) {
    const float* const from = &packed[row * dim];
    float* const to = &rows[row * stride];
    if (layer.rope.layout == RopeLayout::kInterleaved) {
      kernels::RopeToHalf(DType::kFloat32, from, dim, to, stride, 1,
                          layer.rope.DimsOf(layer.head_dim), dim);
    } else {
      std::copy_n(from, dim, to);
    }
  }
  return rows;
}

}  // namespace

Status CheckFindOptions(const FindOptions& options) {
  const uint32_t tokens = options.passage_tokens;
  if (tokens >= 2 && tokens % 2 == 0 && tokens <= FindOptions::kMaxPassageTokens) {
    return Status::Ok();
  }
  return Status::InvalidArgument("passage_tokens is " + std::to_string(tokens) +
                                 ", expected an even number from 2 to " +
                                 std::to_string(FindOptions::kMaxPassageTokens));
}

Result<std::vector<find::HeadQuestion>> HeadQuestionsOf(const ModelSpec& spec,
                                                        const FindQuery& query) {
  ATTNDB_RETURN_IF_ERROR(CheckHeads(spec, query));
  ATTNDB_RETURN_IF_ERROR(CheckRows(spec, query));
  std::vector<find::HeadQuestion> questions;
  for (size_t i = 0; i < query.heads.size(); ++i) {
    const FindHead& head = query.heads[i];
    ATTNDB_ASSIGN_OR_RETURN(std::vector<float> rows,
                            RowsOf(spec.layers[head.layer], head, query.q[i]));
    questions.push_back({head.layer, head.q_head, std::move(rows)});
  }
  return questions;
}

}  // namespace attndb::internal
