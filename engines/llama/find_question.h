// q of a question's tokens, run by themselves: what DB::Find takes.
//
// The question stands in the user's message of the model's chat template, as a document does, with
// nothing stored before it. Only the rows of its own tokens are kept.
//
// Errors:  kInvalidArgument (no text; more tokens than the model is meant for); as
//          LlamaEngine::Prefill.
// Threads: as the engine: one thread at a time. Prepare may be called on any thread at any time.
#ifndef ATTNDB_ENGINES_LLAMA_FIND_QUESTION_H_
#define ATTNDB_ENGINES_LLAMA_FIND_QUESTION_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "attndb/db.h"
#include "attndb/find.h"
#include "attndb/result.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

class FindQuestion {
 public:
  // Runs `question` on a session of `db`, which stores nothing. `keep_going` is called now and
  // then; false stops with kCancelled. It may be null.
  static Result<FindQuestion> Run(LlamaEngine* engine, const DB& db, std::string_view question,
                                  std::span<const FindHead> heads,
                                  const std::function<bool()>& keep_going = nullptr);

  // The two halves of Run, for a caller whose engine is busy. Prepare makes the tokens and runs
  // nothing. RunIn runs those that `session` lacks; the session has the first tokens() and none of
  // own_tokens().
  static Result<FindQuestion> Prepare(const LlamaEngine& engine, std::string_view question,
                                      std::span<const FindHead> heads,
                                      const std::function<bool()>& keep_going = nullptr);
  Status RunIn(LlamaEngine* engine, Session* session,
               const std::function<bool()>& keep_going = nullptr);

  // The template's tokens and the question's.
  std::span<const TokenId> tokens() const { return tokens_; }
  TokenRange own_tokens() const { return {first_token_, first_token_ + num_tokens_}; }

  // The question's q, as views into this object.
  FindQuery query() const;
  uint64_t num_tokens() const { return num_tokens_; }

 private:
  FindQuestion(const ModelSpec& spec, std::span<const FindHead> heads, std::vector<TokenId> tokens,
               TokenRange own);
  // Copies the question's rows of a ubatch's q in one layer.
  void Keep(LayerId layer, uint64_t first_token, const TensorView& q);

  std::vector<TokenId> tokens_;
  std::vector<FindHead> heads_;
  std::vector<uint32_t> head_dims_;
  std::vector<std::vector<float>> rows_;  // By head: [num_tokens, head_dim].
  uint64_t first_token_ = 0;              // Index of the question's first token in tokens_.
  uint64_t num_tokens_ = 0;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_FIND_QUESTION_H_
