// A reply as it is sampled, token by token, for callers that run the passes themselves: a server
// with one pass for the tokens of many sessions.
//
//   auto reply = engine.BeginReply(options);
//   (*reply)->SeePrompt(rest);                       // Run before, or run in the next pass.
//   while (!(*reply)->Next(*engine.Logits(entry))) run a pass with (*reply)->tokens().back();
//   std::string text = (*reply)->Finish();
//
// Threads: one thread at a time; it only reads its engine, which outlives it.
#ifndef ATTNDB_ENGINES_LLAMA_REPLY_H_
#define ATTNDB_ENGINES_LLAMA_REPLY_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/sampler.h"
#include "engines/llama/shown_tokens.h"
#include "engines/llama/text_stream.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {

class Reply {
 public:
  // What LlamaEngine::BeginReply calls. `tokenizer` outlives this.
  Reply(GenerateOptions options, const Tokenizer* tokenizer, TokenSampler sampler);

  // Lets the repeat penalty know the tokens before the reply.
  void SeePrompt(std::span<const TokenId> tokens);
  // Samples the next token from the logits after the last one, and shows what text it completes
  // (GenerateOptions::on_piece, on_tokens). The reason to end, if there is one. tokens() has the
  // new token, unless it is the model's end.
  // REQUIRES: it has not ended; GenerateOptions::max_tokens > 0.
  std::optional<FinishReason> Next(std::span<const float> logits);
  // Shows what was held back, and gives the whole text, without the stop string.
  std::string Finish();

  // Without the end-of-generation token.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const GenerateOptions& options() const { return options_; }
  // The stop string that ended it; empty: it ended otherwise, or has not ended.
  const std::string& stop() const { return stream_.stop(); }

 private:
  // Shows text of the tokens that are noted. False: its reader wants no more.
  bool Show(const std::string& piece);
  // Notes a sampled token for GenerateOptions::on_tokens, which is not null.
  void Note(TokenId token, std::string piece, std::span<const float> logits);
  LikelyToken Likely(const TokenChance& chance) const;
  void GiveOut(std::vector<ReplyToken> tokens) const;

  const GenerateOptions options_;
  const Tokenizer* const tokenizer_;
  TokenSampler sampler_;
  TextStream stream_;
  ShownTokens noted_;  // Empty without GenerateOptions::on_tokens.
  std::vector<TokenId> tokens_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_REPLY_H_
