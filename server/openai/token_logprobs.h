// The `logprobs` of an answer: how likely each token of the reply was.
//
//   kContent  OpenAI's of a chat: {"content": [{"id", "token", "bytes", "logprob",
//   "top_logprobs"}]},
//             and the id, which llama.cpp's server has, too
//   kProbs    llama.cpp's server with post_sampling_probs: the same with "prob" and "top_probs"
//   kLegacy   OpenAI's of a completion: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}
//
// The bytes of a token are those of the reply's text: none of a control token, and of a token that
// a stop string cuts only those before it. A token's text says "\xNN" for a byte of a character
// that other tokens complete. "top_logprobs" have control tokens by their names, with "bytes":
// null.
//
// Memory:  a text of about 100 bytes for each token that is listed.
// Threads: one thread.
#ifndef ATTNDB_SERVER_OPENAI_TOKEN_LOGPROBS_H_
#define ATTNDB_SERVER_OPENAI_TOKEN_LOGPROBS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engines/llama/llama_engine.h"
#include "server/json.h"

namespace attndb::server {

enum class LogprobForm : uint8_t { kNone, kContent, kProbs, kLegacy };

class TokenLogprobs {
 public:
  explicit TokenLogprobs(LogprobForm form) : form_(form) {}

  LogprobForm form() const { return form_; }
  bool empty() const { return num_tokens_ == 0; }

  // REQUIRES: form() != kNone.
  void Add(std::span<const llama::ReplyToken> tokens);

  // Returns the JSON text of the tokens since the last call. Offsets in the text go on.
  std::string Take();

 private:
  void AddContent(const llama::ReplyToken& token);
  void AddLegacy(const llama::ReplyToken& token);

  const LogprobForm form_;
  size_t num_tokens_ = 0;
  // Texts of lists, without their brackets. Trees of JSON would take ten times as much.
  std::string content_;
  std::string texts_, chances_, likeliest_, offsets_;
  bool has_likeliest_ = false;
  uint64_t num_chars_ = 0;  // That begin in the tokens so far.
};

// Returns the text of `json`, with `logprobs` in place of the null of its first "logprobs".
std::string TextWithLogprobs(const Json& json, const std::string& logprobs);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_TOKEN_LOGPROBS_H_
