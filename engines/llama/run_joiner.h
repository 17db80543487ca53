// Joins the texts of a prompt, item by item, to tokens that are there: the part that Join and
// Follow share. text_join.h says which tokens come out.
//
// Errors:  as Tokenizer's; llama.cpp may throw: WithoutExceptions.
// Threads: one thread.
#ifndef ATTNDB_ENGINES_LLAMA_RUN_JOINER_H_
#define ATTNDB_ENGINES_LLAMA_RUN_JOINER_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {

// Looks at the limits of a text after every piece_bytes of it, however short its runs are.
class LimitWatch {
 public:
  // `limits` outlive this.
  explicit LimitWatch(const TokenizeLimits& limits) : limits_(limits) {}

  // Counts bytes that are done. `num_tokens`: those that were made of all bytes.
  // Errors: kCancelled.
  Status AddRun(size_t num_bytes, size_t num_tokens);
  // Whether there are more tokens than the limit.
  bool has_enough() const { return has_enough_; }

 private:
  const TokenizeLimits& limits_;
  uint64_t num_bytes_ = 0;
  uint64_t num_unseen_ = 0;  // Bytes behind the last look.
  bool has_enough_ = false;
};

// Returns where each of `ids` begins in `text`, which is tokenized as them, and where the last one
// ends. A space that the tokenizer set in front is no byte of the text.
std::vector<size_t> BeginsOf(const Tokenizer& tokenizer, std::span<const TokenId> ids,
                             std::string_view text);

class RunJoiner {
 public:
  // `tokenizer` and `options` outlive this.
  RunJoiner(const Tokenizer& tokenizer, std::span<const TokenId> before,
            const JoinOptions& options);

  // Says how the stored run goes on behind `before`, as far as is known. A tokenizer that looks
  // ahead makes some tokens only in front of this text.
  void SetStoredBehind(std::string text) { stored_behind_ = std::move(text); }

  // Adds the next item; its spaces are stripped already. Contents are counted: the result has the
  // tokens of each.
  Status Add(const PromptItem& item);
  // Whether no more items are wanted: the limit is passed.
  bool has_enough() const { return watch_.has_enough(); }
  // `num_contents`: those of the whole text. A content that was not added has no tokens.
  Result<JoinedText> Finish(size_t num_contents);

 private:
  // A content, by its bytes in the run.
  struct Content {
    size_t idx;
    size_t begin;
    size_t end;
  };
  // The end of a run of stored tokens.
  struct Tail {
    size_t first = 0;       // Index of its first token.
    bool is_whole = false;  // The run begins there.
    std::string text;
    std::vector<size_t> begins;  // Where its tokens begin in the text.
  };

  // `num_stored`: tokens of the text that don't count for the limit, because they are stored.
  Result<std::vector<TokenId>> IdsOf(std::string_view text, size_t num_stored = 0) const;
  // The ids of a text behind another one, none of which goes across.
  Result<std::vector<TokenId>> IdsBehindText(const std::string& text) const;
  // A control token or the end follows: the tokens of the run are known.
  Status EndRun();
  // Appends ids of `text`, whose first bytes are of stored tokens.
  void AppendIds(std::span<const TokenId> ids, std::string_view text, size_t num_old_bytes);
  // A token belongs to the content that its last byte is of: words take the space before them.
  void NoteContents(const std::vector<size_t>& begins, size_t first, size_t num_old_bytes);
  // The run goes on from stored tokens.
  Status GoOn();
  Tail TailOf(size_t least_bytes) const;
  // The last token of the tail before which the run may be cut.
  std::optional<size_t> CutOf(const Tail& tail) const;
  // Tokenizes the run again from the tail's token `from`, which is a cut or where the run begins.
  Status GoOnFrom(const Tail& tail, size_t from);
  // Whether the tokenizer made the stored tokens of this text.
  Result<bool> IsOwn(std::span<const TokenId> stored, const std::string& text) const;

  const Tokenizer& tokenizer_;
  const JoinOptions& options_;
  const size_t num_before_;
  LimitWatch watch_;
  JoinedText joined_;
  std::string stored_behind_;
  std::string run_;                // Text behind the last control token that is not tokenized yet.
  std::vector<Content> contents_;  // Those in run_.
};

// Returns what `make` returns. Errors: also kResourceExhausted and kInvalidArgument for the
// exceptions of llama.cpp.
template <typename Make>
auto WithoutExceptions(Make make) -> decltype(make()) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("memory for the tokens of a text");
  } catch (const std::exception& error) {
    return Status::InvalidArgument(std::string("the model's vocabulary can't hold the text: ") +
                                   error.what());
  }
}

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_RUN_JOINER_H_
