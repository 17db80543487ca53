// A reply as it is sampled, token by token, for callers that run the passes themselves: a server
// with one pass for the tokens of many sessions.
//
//   auto reply = *engine.BeginReply(options);
//   reply->SeePrompt(rest);                        // Run before, or run in the next pass.
//   while (!**reply->Next(*engine.Logits(entry))) run a pass with reply->tokens().back();
//   std::string text = reply->Finish();
//
// A reply under a grammar asks another process about each token (chat/grammar_job.h). Next waits
// for the answer. With Propose and Settle in its place, other work goes on meanwhile:
//
//   step = reply->Propose(*engine.Logits(entry));
//   while (!step->is_settled) do something else, then step = reply->Settle();
//
// Method:  as llama-server: a token is sampled, and then checked. Only if it may not come, the
//          grammar says which tokens may, and one of these is sampled. A lazy grammar is not asked
//          about the tokens of a thinking. It gets the mark that ends the thinking, which may be
//          its trigger. A thinking that is too long gets its end token by token; if the grammar
//          forbids one of these, the thinking goes on without a limit.
// Errors:  of GrammarJob; also kInvalidArgument: no token that the grammar allows may be chosen.
//          The reply has then ended.
// Threads: one thread at a time; it only reads its engine, which outlives it.
#ifndef ATTNDB_ENGINES_LLAMA_REPLY_H_
#define ATTNDB_ENGINES_LLAMA_REPLY_H_

#include <poll.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/chat/grammar_job.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/sampler.h"
#include "engines/llama/shown_tokens.h"
#include "engines/llama/text_stream.h"
#include "engines/llama/thinking_tracker.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {

// How far the next token of a reply is.
struct ReplyStep {
  bool is_settled = false;             // False: the grammar has not answered yet.
  std::optional<FinishReason> finish;  // Once it is settled: why the reply ends, if it does.
};

// The tokens that a reply needs of its options.
struct PreparedReply {
  std::optional<ThinkingTracker> thinking;  // nullopt: nobody knows how the model marks it.
  std::unordered_set<TokenId> shown;        // Control tokens that are part of the text.
};

// LlamaEngine::PrepareReply.
std::shared_ptr<const PreparedReply> PrepareReply(const GenerateOptions& options,
                                                  const Tokenizer& tokenizer);

class Reply {
 public:
  // LlamaEngine::BeginReply calls this. `tokenizer` outlives it. `grammar`: the process of
  // options.constraint; null: there is none.
  Reply(GenerateOptions options, const Tokenizer* tokenizer, TokenSampler sampler,
        std::unique_ptr<GrammarJob> grammar = nullptr);

  // Lets the repeat penalty know the tokens before the reply.
  void SeePrompt(std::span<const TokenId> tokens);
  // Waits until the grammar is compiled, if there is one.
  Status AwaitGrammar();
  // Samples the next token from the logits after the last one, and shows what text it completes
  // (GenerateOptions::on_piece, on_tokens). The reason to end, if there is one. tokens() has the
  // new token, unless it is the model's end.
  // REQUIRES: it has not ended; GenerateOptions::max_tokens > 0.
  Result<std::optional<FinishReason>> Next(std::span<const float> logits);
  // The first half of Next. Does not wait. REQUIRES: as Next.
  Result<ReplyStep> Propose(std::span<const float> logits);
  // The second half, for a step that is not settled. Does not wait.
  Result<ReplyStep> Settle();
  // Ready, for poll(), when Settle has something to do. REQUIRES: a step is not settled.
  pollfd awaited() const { return grammar_->awaited(); }
  // Shows what was held back, and gives the whole text, without the stop string.
  std::string Finish();

  // Without the end-of-generation token.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const GenerateOptions& options() const { return options_; }
  // The token by which the model ended it; nullopt: it ended otherwise, or has not ended.
  std::optional<TokenId> end_token() const { return end_token_; }
  // Ends the model's thinking before the next token, if it is thinking.
  void EndThinking();
  // The tokens that are thinking; nullopt: nobody knows how the model marks it.
  std::optional<uint64_t> num_thinking_tokens() const;
  // The stop string that ended it; empty: it ended otherwise, or has not ended.
  const std::string& stop() const { return stream_.stop(); }

 private:
  // Returns the next token, which no grammar has seen yet.
  TokenId NextToken(std::span<const float> logits);
  bool is_lazy() const { return options_.constraint && options_.constraint->is_lazy; }
  // Lets the thinking, and then the grammar, know a token that came.
  void Follow(TokenId token);
  // The answer about the proposed token, if it comes in time.
  Result<ReplyStep> SettleIn(int wait_ms);
  Result<TokenId> Chosen(const GrammarVerdict& verdict);
  // Takes the next token.
  std::optional<FinishReason> Take(TokenId token, std::span<const float> logits);
  std::string PieceOf(TokenId token) const;
  // Shows text of the tokens that are noted. False: its reader wants no more.
  bool Show(const std::string& piece);
  // Notes a sampled token for GenerateOptions::on_tokens, which is not null.
  void Note(TokenId token, std::string piece, std::span<const float> logits);
  LikelyToken Likely(const TokenChance& chance) const;
  void GiveOut(std::vector<ReplyToken> tokens) const;

  const GenerateOptions options_;
  const Tokenizer* const tokenizer_;
  TokenSampler sampler_;
  const std::unique_ptr<GrammarJob> grammar_;  // Null: a reply is any text.
  const std::shared_ptr<const PreparedReply> prepared_;
  bool in_force_ = false;                    // The last answer of a lazy grammar.
  std::optional<ThinkingTracker> thinking_;  // nullopt: as PreparedReply::thinking.
  std::optional<TokenId> end_token_;
  // Under a grammar: the logits of the next token, and the token that it is asked about.
  std::vector<float> logits_;
  TokenId proposed_ = 0;
  TextStream stream_;
  ShownTokens noted_;  // Empty without GenerateOptions::on_tokens.
  std::vector<TokenId> tokens_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_REPLY_H_
