// From the words of a request to the tokens of its prompt.
//
//   chat         the model's template over the messages
//   completion   the bare text or the tokens, behind a named context's tokens if there is one
//   context      a named context's tokens, and the messages as questions to it: a document is
//                asked about in the message that it is in, a dialogue goes on
//
// Method:  contents are never parsed for control tokens, and what a reply was is taken from what
//          Conversations remember, so that prompts of later turns begin with the tokens of earlier
//          ones. Text behind tokens has the ids of the whole text (LlamaEngine::Join).
// Limits:  a prompt with more new tokens than limits.max_tokens may lack some: the caller refuses
//          it.
// Names:   a context's name stands for the tokens that it names when the request comes. Turns about
//          a context are remembered by its tokens: where these have changed, the prompt begins with
//          the new ones, and the words of the earlier turns come behind them.
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_BATCH_PROMPTS_H_
#define ATTNDB_SERVER_BATCH_PROMPTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/prompt_layout.h"
#include "server/batch/conversations.h"

namespace attndb::server {

struct Prompt {
  std::vector<TokenId> tokens;
  TextLayout text;  // Whose words they are.
  // Tokens of the system message in front, the context's or the template's own; 0: there is none.
  uint64_t num_system = 0;
  uint64_t num_last = 0;  // Tokens of the last message, and of the markup around it.
  std::string digest;     // What Conversations know it by; empty: it is bare text.
};

class Prompts {
 public:
  using Limits = llama::TokenizeLimits;

  // Both outlive it.
  Prompts(const llama::LlamaEngine* engine, Conversations* conversations)
      : engine_(engine), conversations_(conversations) {}

  // `context`: what the text goes on from; empty: it begins one.
  // Errors: kNotFound (context); kCancelled (by `limits`), as of all that takes them.
  Result<Prompt> OfText(const std::string& tenant, const std::string& context,
                        const std::string& text, const Limits& limits = {}) const;
  // Likewise for tokens, which are run as they are, control tokens among them.
  // Errors: kNotFound; kInvalidArgument (an id that is not in the vocabulary).
  Result<Prompt> OfTokens(const std::string& tenant, const std::string& context,
                          const std::vector<TokenId>& tokens) const;
  // Errors: kNotFound (context); kInvalidArgument (messages that it can't be asked).
  Result<Prompt> OfChat(const std::string& tenant, const std::string& context,
                        std::span<const llama::ChatMessage> messages,
                        const Limits& limits = {}) const;
  // A conversation whose last message is a reply, up to the reply's end: num_last tokens are the
  // reply's, those that it was given as, or, if nobody was given it, those of its words.
  // Errors: kInvalidArgument (it answers no message); as OfChat.
  Result<Prompt> OfReply(const std::string& tenant, const std::string& context,
                         std::span<const llama::ChatMessage> messages,
                         const Limits& limits = {}) const;

 private:
  using Messages = std::span<const llama::ChatMessage>;
  using Tokens = std::vector<TokenId>;

  // What messages are about, and what a conversation about it is remembered by.
  struct Subject {
    std::string context;  // Its name; empty: nothing.
    llama::StoredContext stored;
    std::vector<llama::ChatMessage> front;  // What stands for it before the messages: 0 or 1.
  };

  // Opens the text of the context; an empty name gives an empty text. Errors: kNotFound.
  Result<llama::StoredContext> Open(const std::string& tenant, const std::string& context) const;
  // Errors: kNotFound.
  Result<Subject> SubjectOf(const std::string& tenant, const std::string& context) const;
  Result<Prompt> ChatAbout(const std::string& tenant, const Subject& subject, Messages messages,
                           const Limits& limits) const;
  // Gives the prompt its tokens, and these messages behind what `before` says.
  static void Take(const TextLayout& before, const llama::JoinedText& joined, Messages messages,
                   Prompt* prompt);
  // The context's tokens and the messages as questions to it.
  Status AskContext(const Subject& subject, Messages messages, const Limits& limits,
                    Prompt* prompt) const;
  // The parts of a prompt that these questions add behind the context. They refer to the messages.
  Result<llama::PromptParts> PartsFor(const Subject& subject, Messages messages) const;
  Result<uint64_t> SystemTokensOf(const Prompt& prompt, Messages messages,
                                  const Limits& limits) const;

  const llama::LlamaEngine* const engine_;
  Conversations* const conversations_;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_PROMPTS_H_
