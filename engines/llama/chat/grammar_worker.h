// A grammar and how far a reply has come in it: llama.cpp's own sampler, in a process of its own.
// llama.cpp limits neither the steps nor the memory of a grammar, throws, and ends its process for
// tokens that do not fit.
//
// Requests and answers are frames (chat_frames.h):
//
//   {grammar, vocabulary, before, lazy?, triggers}   {}: the first; `vocabulary` is VocabDigest
//   {check, accept?}                                 {allowed, waits?} or {mask}
//   one that fails                                   {error}, or {failed} if it is our fault
//
//   check, accept   Tokens: int32, this machine's byte order. Those of `accept` came behind all
//                   that were accepted so far, and `check` is the one that may come next.
//   mask            The tokens that may come instead of `check` (token_mask.h).
//   waits           A flag: the grammar is lazy and waits for its trigger.
//   triggers        As in a plan (chat_wire.h).
//
// Threads: one thread.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_WORKER_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_WORKER_H_

#include <llama.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/chat/chat_frames.h"
#include "engines/llama/chat/token_tree.h"
#include "engines/llama/llama_handles.h"

namespace attndb::llama {

class GrammarWorker {
 public:
  // `vocab` and its `tree` outlive this; `digest` is its VocabDigest.
  GrammarWorker(const llama_vocab* vocab, const TokenTree* tree, std::string digest)
      : vocab_(vocab), tree_(tree), digest_(std::move(digest)) {}

  ChatFields Answer(const ChatFields& request);
  // To be called behind Answer: accepts the token that was just allowed, since a reply takes it.
  // The next Answer has less to do.
  void GoOn();

 private:
  ChatFields Begin(const ChatFields& request);
  ChatFields Check(const ChatFields& request);
  // Throw std::exception in llama.cpp's words.
  void Compile(const ChatFields& request);
  void AcceptBefore(const std::string& text);
  void Accept(llama_token token);

  bool Allows(llama_token token) const;
  // Whether a lazy grammar waits for its trigger, as far as can be seen: it takes anything then.
  bool Waits() const;
  std::string Mask() const;
  // Returns the ones of `tokens` that may come.
  std::vector<llama_token> AllowedOf(std::span<const llama_token> tokens) const;

  const llama_vocab* const vocab_;
  const TokenTree* const tree_;
  const std::string digest_;
  bool has_token_rules_ = false;
  bool is_lazy_ = false;
  SamplerHandle grammar_;                // Null before Begin.
  std::string mask_;                     // The last one; empty: the last token was allowed.
  std::optional<llama_token> allowed_;   // The last checked token, if it was allowed.
  std::optional<llama_token> accepted_;  // The token that GoOn accepted.
  std::string error_;                    // Why GoOn failed; empty: it did not.
};

// Answers requests on `socket` until the other end closes. The process has then its limits, and
// ends when it goes beyond them.
void RunGrammarWorker(int socket, GrammarWorker worker);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_WORKER_H_
