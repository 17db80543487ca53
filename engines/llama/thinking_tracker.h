// Follows a reply through the model's thinking: where it begins, where it ends, how many tokens it
// takes, and which tokens end a thinking whose budget is used up.
//
//   ThinkingTracker tracker(marks, budget, end_tokens);
//   tracker.TakeBefore(piece);  // For each token at the end of the prompt.
//   if (tracker.forced()) the next token of the reply is *tracker.forced();
//   tracker.Take(piece);        // For each token of the reply.
//
// Method:  as llama-server counts: each token behind the start mark counts, also one of the prompt,
//          and a second thinking has a budget of its own. Marks are looked for in the text, so
//          that it does not matter into which tokens the model splits them. The end is forced
//          between two characters, never inside one.
// Threads: one thread.
#ifndef ATTNDB_ENGINES_LLAMA_THINKING_TRACKER_H_
#define ATTNDB_ENGINES_LLAMA_THINKING_TRACKER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/types.h"

namespace attndb::llama {

struct ThinkingMarks {
  std::string start;
  std::vector<std::string> ends;
  // A thinking begins where the reply begins. A start mark behind other text is text.
  bool only_in_front = false;
};

class ThinkingTracker {
 public:
  // Empty marks are ignored. `budget`: the tokens that a thinking may take; nullopt: any.
  // `end_tokens`: they end a thinking that has taken as many; empty: nothing ends it.
  ThinkingTracker(ThinkingMarks marks, std::optional<uint32_t> budget,
                  std::vector<TokenId> end_tokens);

  // Takes the bytes of a token in front of the reply. REQUIRES: Take was not called.
  void TakeBefore(std::string_view piece);
  // Takes the bytes of the reply's next token; of a control token, its name. `may_begin`: whether
  // a start mark that ends in this token begins a thinking.
  void Take(std::string_view piece, bool may_begin = true);
  // Ends the thinking now, as if its budget were used up. Outside a thinking: does nothing.
  void End();
  // The forced token can't come: the thinking may take any number of tokens.
  void GiveUp();

  bool thinks() const { return state_ != State::kOutside; }
  // The token that has to come next; nullopt: any token may.
  std::optional<TokenId> forced() const;
  // The tokens of the reply that are thinking: those between the marks, without the marks' own.
  uint64_t num_thinking_tokens() const { return num_thinking_tokens_; }
  // How many tokens, up to the last one, have bytes of the mark that ended the thinking.
  // REQUIRES: the last Take ended a thinking.
  size_t num_end_tokens() const { return num_end_tokens_; }

 private:
  enum class State : uint8_t {
    kOutside,
    kThinking,
    kInCharacter,  // The budget is used up, and a character is not complete.
    kForcing,
  };
  struct Found {
    size_t begin = 0;  // In text_.
    size_t end = 0;
  };

  // Appends to text_. Returns where the piece begins.
  size_t Append(std::string_view piece);
  void Follow(size_t begin, bool may_begin);
  void TakeForced(size_t begin);
  // Counts the reply's last token. `thought`: the model was thinking before it.
  void CountThinking(bool thought);
  void Begin();
  void Count();
  void UseUp();
  // The mark that ends first behind `begin` in text_; among these, the longest.
  std::optional<Found> FindMark(const std::vector<std::string>& marks, size_t begin) const;
  bool MayBegin(const Found& mark) const;
  size_t NumTokensBehind(size_t begin) const;
  void ForgetOldText();

  const bool only_in_front_;
  const std::vector<std::string> starts_;
  const std::vector<std::string> ends_;
  const std::vector<TokenId> end_tokens_;
  const std::optional<uint32_t> budget_;
  const size_t kept_bytes_;  // Bytes before a token that may belong to a mark that ends in it.

  State state_ = State::kOutside;
  std::optional<uint32_t> left_;  // Tokens of this thinking's budget. nullopt: any.
  uint32_t num_waited_ = 0;       // Tokens that came in state kInCharacter.
  size_t num_forced_ = 0;         // Tokens of end_tokens_ that were forced.
  size_t num_end_tokens_ = 0;
  bool has_ended_ = false;            // The last token ended a thinking.
  uint64_t num_thinking_tokens_ = 0;  // In all thinkings.
  uint64_t num_since_begin_ = 0;      // In this thinking.
  std::string text_;                  // The last tokens.
  std::deque<size_t> sizes_;          // The bytes of each token in text_.
  size_t num_used_ = 0;               // Bytes of text_ up to the end of the last mark.
  uint64_t num_reply_bytes_ = 0;
  uint64_t num_blank_bytes_ = 0;  // Spaces that the reply begins with.
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_THINKING_TRACKER_H_
