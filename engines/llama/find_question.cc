#include "engines/llama/find_question.h"

#include <algorithm>
#include <string>
#include <utility>

#include "attndb/units.h"
#include "engines/llama/utf8_bytes.h"

namespace attndb::llama {
namespace {

// The prompt that ends with the question, its last content. Without the template where llama.cpp
// can't apply it.
Result<JoinedText> QuestionAlone(const LlamaEngine& engine, std::string_view question,
                                 const TokenizeLimits& limits) {
  PromptParts parts = {{"", WithoutBom(question)}};
  if (engine.KnowsChatTemplate()) {
    ATTNDB_ASSIGN_OR_RETURN(parts, engine.DocumentParts("", WithoutBom(question)));
  }
  return engine.Join({}, parts, {.limits = limits});
}

}  // namespace

FindQuestion::FindQuestion(const ModelSpec& spec, std::span<const FindHead> heads,
                           std::vector<TokenId> tokens, TokenRange own)
    : tokens_(std::move(tokens)),
      heads_(heads.begin(), heads.end()),
      first_token_(own.begin),
      num_tokens_(own.end - own.begin) {
  for (const FindHead& head : heads_) {
    head_dims_.push_back(spec.layers[head.layer].head_dim);
    rows_.emplace_back(num_tokens_ * head_dims_.back());
  }
}

void FindQuestion::Keep(LayerId layer, uint64_t first_token, const TensorView& q) {
  const auto* const data = static_cast<const float*>(q.data);
  for (size_t i = 0; i < heads_.size(); ++i) {
    if (heads_[i].layer != layer) continue;
    const int64_t head = heads_[i].q_head;
    for (int64_t row = 0; row < q.rows(); ++row) {
      const uint64_t token = first_token + static_cast<uint64_t>(row);
      if (token < first_token_ || token >= first_token_ + num_tokens_) continue;
      float* const to = &rows_[i][(token - first_token_) * head_dims_[i]];
      for (int64_t d = 0; d < head_dims_[i]; ++d) {
        to[d] = data[row * q.strides[0] + head * q.strides[1] + d * q.strides[2]];
      }
    }
  }
}

Result<FindQuestion> FindQuestion::Prepare(const LlamaEngine& engine, std::string_view question,
                                           std::span<const FindHead> heads,
                                           const std::function<bool()>& keep_going) {
  const ModelSpec& spec = engine.spec();
  for (const FindHead& head : heads) {
    if (head.layer < spec.num_layers() && head.q_head < spec.layers[head.layer].num_q_heads) {
      continue;
    }
    return Status::InvalidArgument("layer " + std::to_string(head.layer) + " q head " +
                                   std::to_string(head.q_head) + ": the model has no such head");
  }
  const uint64_t most = engine.info().max_context == 0 ? UINT64_MAX : engine.info().max_context;
  TokenizeLimits limits = {.max_tokens = most};
  if (keep_going) limits.progress = [&](uint64_t, uint64_t) { return keep_going(); };
  ATTNDB_ASSIGN_OR_RETURN(JoinedText prompt, QuestionAlone(engine, question, limits));
  if (prompt.tokens.size() > most) {
    return Status::InvalidArgument("the question has more than " + Counted(most, "token") +
                                   ", which the model was trained on");
  }
  const TokenRange own = prompt.contents.back();
  if (own.begin == own.end) {
    return Status::InvalidArgument("the question is empty; expected 1 or more tokens");
  }
  return FindQuestion(spec, heads, std::move(prompt.tokens), own);
}

Status FindQuestion::RunIn(LlamaEngine* engine, Session* session,
                           const std::function<bool()>& keep_going) {
  PrefillOptions prefill;
  prefill.on_queries = [this](LayerId layer, uint64_t first_token, const TensorView& q) {
    Keep(layer, first_token, q);
    return Status();
  };
  if (keep_going) prefill.progress = [&](const PrefillProgress&) { return keep_going(); };
  return engine->Prefill(*session, tokens().subspan(session->num_tokens()), prefill);
}

Result<FindQuestion> FindQuestion::Run(LlamaEngine* engine, const DB& db, std::string_view question,
                                       std::span<const FindHead> heads,
                                       const std::function<bool()>& keep_going) {
  ATTNDB_ASSIGN_OR_RETURN(FindQuestion asked, Prepare(*engine, question, heads, keep_going));
  SessionOptions alone;
  alone.reuse = false;
  alone.plan = "full";
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                          db.CreateSession(engine->spec(), asked.tokens(), alone));
  ATTNDB_RETURN_IF_ERROR(asked.RunIn(engine, &start.session, keep_going));
  return asked;
}

FindQuery FindQuestion::query() const {
  FindQuery query;
  query.heads = heads_;
  query.first_position = static_cast<int64_t>(first_token_);
  for (size_t i = 0; i < heads_.size(); ++i) {
    query.q.push_back(TensorView::Contiguous(rows_[i].data(), DType::kFloat32,
                                             static_cast<int64_t>(num_tokens_), 1, head_dims_[i]));
  }
  return query;
}

}  // namespace attndb::llama
