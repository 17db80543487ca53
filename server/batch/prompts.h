// From the words of a request to the tokens of its prompt.
//
//   chat         the model's template over all messages
//   completion   the bare text or the tokens, behind a named context's tokens if there is one
//   context      a named context's tokens, and the messages as questions to it: a document is
//                asked about in the message that it is in, a dialogue goes on
//
// Method:  a chat is rendered whole, and then follows the tokens of the stored turn that says most
//          of it (LlamaEngine::Follow). So the prompt of a later turn begins with the tokens of the
//          earlier ones, as far as the template shows the same. Contents are never parsed for
//          control tokens.
//          Turns are found by the messages that they answered (turn_id.h). The last turns are
//          looked at first. kMaxFollowed at most are followed; those do not count whose first other
//          token says something else than the prompt.
//          Edits::kCut: the prompt may leave out pieces of the turn (edits.h), of kMaxSearched
//          turns at most. The turn may then
//          also be one that has the most first tokens of the prompt: where messages are gone, it
//          answered other messages.
// Limits:  a prompt with more new tokens than limits.max_tokens may lack some: the caller refuses
//          it.
// Names:   a context's name stands for the tokens that it names when the request comes. Turns about
//          a context are remembered by its tokens: where these have changed, the prompt begins with
//          the new ones, and the words of the earlier turns come behind them.
// Time:    a template may show the date. A new conversation shows that of the clock. What goes on
//          from a stored context shows the context's, TextLayout::rendered_at: a conversation that
//          is recognized, that of its last stored turn.
// Cost:    a turn of 40,000 tokens that the prompt follows: docs/serving.md.
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_BATCH_PROMPTS_H_
#define ATTNDB_SERVER_BATCH_PROMPTS_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/prompt_layout.h"
#include "server/batch/conversations.h"
#include "server/batch/parting.h"
#include "server/chat/edits_way.h"

namespace attndb::server {

// The most stored turns that one prompt follows.
inline constexpr size_t kMaxFollowed = 16;
// The most of them that are searched for pieces that the prompt leaves out. A search takes time:
// left_out.h. As many again among those that have the most first tokens of the prompt.
inline constexpr size_t kMaxSearched = 4;

struct Prompt {
  std::vector<TokenId> tokens;  // Those that it leaves out are among them.
  TextLayout text;              // Whose words they are.
  // Tokens of the system message and of the tools in front: the chat's, the context's or the
  // template's own. 0: there are none.
  uint64_t num_system = 0;
  uint64_t num_last = 0;  // Tokens of the last message, and of the markup around it.
  std::string digest;     // What Conversations know it by; empty: it is bare text.
  llama::ReplyForm form;  // How replies to it are read.
  // The tokens that the words leave out: in order, each in front of a token that was stored behind
  // it. The other numbers do not count them.
  std::vector<TokenRange> left_out;
  // The place where the prompt leaves its predecessor. This is the stored turn that the prompt
  // follows. If the prompt follows no turn, or keeps a whole turn, the predecessor may be another
  // conversation: one with fewer messages that shares as much with the prompt. The client then
  // changed a message in the middle.
  // nullopt: there is no predecessor, or the prompt has all of its words. A reply may go on behind
  // the words that the client got, for example with a stop string; these tokens do not count.
  std::optional<Parted> parted;
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
  // Errors: kNotFound (context); kInvalidArgument (messages that it can't be asked, or tools); as
  //         LlamaEngine::Render.
  Result<Prompt> OfChat(const std::string& tenant, const std::string& context,
                        std::span<const llama::ChatMessage> messages,
                        const llama::ChatOptions& options = {}, const Limits& limits = {},
                        Edits edits = Edits::kExact) const;
  // Returns how many tokens the exact prompt of OfChat has. Errors: those of OfChat.
  Result<uint64_t> NumTokensOfChat(const std::string& tenant, const std::string& context,
                                   std::span<const llama::ChatMessage> messages,
                                   const llama::ChatOptions& options = {},
                                   const Limits& limits = {}) const;
  // A conversation whose last message is a reply, up to the reply's end: num_last tokens are the
  // reply's, those that it was given as, or, if nobody was given it, those of its words.
  // Errors: kInvalidArgument (it answers no message); as OfChat.
  Result<Prompt> OfReply(const std::string& tenant, const std::string& context,
                         std::span<const llama::ChatMessage> messages,
                         const llama::ChatOptions& options = {}, const Limits& limits = {}) const;

 private:
  using Messages = std::span<const llama::ChatMessage>;
  using Tokens = std::vector<TokenId>;

  // What messages are about, and what a conversation about it is remembered by.
  struct Subject {
    std::string context;                    // Its name; empty: nothing.
    llama::StoredContext stored;            // Without the pieces that left it.
    std::vector<TokenRange> left_out;       // These pieces.
    std::vector<TokenId> whole;             // All tokens, if there are pieces.
    std::vector<llama::ChatMessage> front;  // What stands for it before the messages: 0 or 1.
  };

  // A chat that is not tokenized yet.
  struct Chat {
    std::string tenant;
    Subject subject;
    Messages messages;
    std::vector<std::string> digests;  // Element i: that of messages [0, i].
    llama::PromptParts parts;          // Behind a context. They refer to the messages.
    llama::RenderedPrompt rendered;    // All of it, the context included.
    llama::ChatOptions options;  // Those of `rendered`. A template that shows the time: `now`.
    Edits edits = Edits::kExact;
  };

  // The tokens of a chat, and the stored turn that they follow, if there is one.
  struct Followed {
    llama::FollowedText text;
    std::optional<KeptText> turn;
    size_t reply = 0;  // Index of the message that is the turn's reply.
    // The chat's prompt with the turn's own time, and with the tokens that its replies hide;
    // nullopt: as Chat::rendered.
    std::optional<llama::RenderedPrompt> rendered;
    int64_t rendered_at = 0;  // The time that its template shows; 0: none.
    // If the chat leaves out pieces of the turn: all tokens of the turn, and the pieces. The tokens
    // of `turn` are then the others.
    Tokens stored;
    std::vector<TokenRange> left_out;
  };

  // How many turns have been compared with a chat, and how many of them were searched for pieces.
  struct Work {
    size_t num_followed = 0;
    size_t num_searched = 0;
  };

  // Opens the text of the context; an empty name gives an empty text. Errors: kNotFound.
  Result<Subject> Open(const std::string& tenant, const std::string& context) const;
  // Opens it, and says what stands for it in front of messages. Errors: kNotFound.
  Result<Subject> SubjectOf(const std::string& tenant, const std::string& context) const;
  // The messages outlive what is returned. `reply`: what answered them, if a turn did; or null.
  Result<Chat> ChatOf(const std::string& tenant, const std::string& context, Messages messages,
                      const llama::ChatOptions& options, const std::string* reply = nullptr) const;
  // The chat that a client wants answered. Where the model has no template, its error says what
  // takes text without one.
  Result<Chat> AskedChat(const std::string& tenant, const std::string& context, Messages messages,
                         const llama::ChatOptions& options) const;
  // The time that the template shows in a chat whose digests are known; 0: it shows none.
  Result<int64_t> TimeOf(const Chat& chat, const std::string* reply) const;
  Status RenderBehindContext(Chat* chat) const;
  // The parts of a prompt that these questions add behind the context. They refer to the messages.
  Result<llama::PromptParts> PartsFor(const Subject& subject, Messages messages, int64_t now) const;
  Result<llama::ReplyForm> FormBehind(const Subject& subject,
                                      const llama::ChatOptions& options) const;

  Result<Prompt> PromptOf(const Chat& chat, const Limits& limits) const;
  // Follows the stored turn that says most of the chat. Without one: the context, or nothing.
  Result<Followed> Follow(const Chat& chat, const Limits& limits) const;
  // Follows the turns whose ids have the digest of what messages[reply] answers, and keeps the best
  // in `best`. Counts them.
  Status FollowTurns(const Chat& chat, size_t reply, const Limits& limits, Work* work,
                     std::optional<Followed>* best) const;
  // Follows the turns that have the most first tokens of the chat, whatever they answer. Only those
  // count of which the chat keeps a reply.
  Status FollowLongest(const Chat& chat, const Limits& limits, std::optional<Followed>* best) const;
  // Follows these turns alike.
  Status FollowEach(const Chat& chat, size_t reply, std::vector<KeptText> turns,
                    const Limits& limits, Work* work, std::optional<Followed>* best) const;
  // Follows one turn, whose reply is messages[reply]; messages.size(): nobody knows which. The
  // template shows the turn's time.
  Result<Followed> FollowTurn(const Chat& chat, size_t reply, KeptText turn, const Limits& limits,
                              Work* work) const;
  // Renders the chat with the time that the turn's template shows, if that is another one.
  Status RenderAtTimeOf(const KeptText& turn, const Chat& chat, Followed* followed) const;
  // Follows the turn without the pieces that the chat leaves out, if that keeps more of it. Errors:
  // also kCancelled, in front of a search that `limits` do not want any more.
  Status LeaveOut(const Chat& chat, const Limits& limits, Followed* followed) const;
  // The tokens of the context and of the parts behind it.
  Result<llama::FollowedText> FollowContext(const Chat& chat, const Limits& limits) const;
  // Where the chat leaves the turn that it follows. If it keeps all of this turn, or follows none:
  // where it leaves the conversation that it shares most with, of those in memory or else in the
  // store.
  Result<std::optional<Parted>> PartedOf(const Chat& chat, const Followed& followed,
                                         const TextLayout& text, const Limits& limits) const;
  // Gives the prompt its tokens, and these messages behind what `before` says.
  static void Take(const TextLayout& before, const llama::JoinedText& joined, Messages messages,
                   Prompt* prompt);
  Result<uint64_t> NumSystem(const Chat& chat, const llama::JoinedText& joined,
                             const Prompt& prompt) const;
  // `num_system`: those of NumSystem.
  Result<uint64_t> NumLast(const Chat& chat, const llama::JoinedText& joined, uint64_t num_system,
                           const Limits& limits) const;
  // Whether the template has a system message of its own.
  Result<bool> HasOwnSystem() const;

  const llama::LlamaEngine* const engine_;
  Conversations* const conversations_;
  mutable std::mutex mutex_;
  mutable std::optional<bool> has_own_system_;  // Under mutex_; nullopt: not known yet.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_PROMPTS_H_
