#include "engines/llama/text_join.h"

#include <algorithm>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engines/llama/utf8_bytes.h"

namespace attndb::llama {
namespace {

using Tokens = std::vector<TokenId>;

// Bytes at the end of the stored run that are searched for a cut first, and by how much more each
// time after that.
constexpr size_t kTailBytes = 1024;
constexpr size_t kTailGrowth = 16;
constexpr size_t kLookAheadBytes = 1024;  // Bytes of the new text that a cut is judged by.

bool IsSpace(char c) { return std::string_view(" \t\n\v\f\r").find(c) != std::string_view::npos; }

// A control token, or a text in front of the next one.
struct MarkupItem {
  std::string text;
  std::optional<TokenId> control;
};

// Where each of `ids` begins in `text`, which is tokenized as them, and where the last one ends.
// The space that the tokenizer set in front is no byte of the text.
std::vector<size_t> BeginsOf(const Tokenizer& tokenizer, std::span<const TokenId> ids,
                             std::string_view text) {
  std::vector<size_t> begins = {0};
  size_t end = 0;
  for (const TokenId id : ids) {
    end += tokenizer.Piece(id).size();
    begins.push_back(end);
  }
  if (end > text.size() && tokenizer.adds_space()) {
    for (size_t& begin : begins) begin -= std::min<size_t>(begin, 1);
  }
  return begins;
}

// The end of a run of stored tokens.
struct Tail {
  size_t first = 0;       // Index of its first token.
  bool is_whole = false;  // The run begins there.
  std::string text;
  std::vector<size_t> begins;  // Where its tokens begin in the text.
};

Tail TailOf(const Tokenizer& tokenizer, std::span<const TokenId> tokens, size_t least_bytes) {
  Tail tail;
  tail.first = tokens.size();
  size_t num_bytes = 0;
  std::vector<std::string> pieces;  // The last one first.
  const auto may_begin = [&] {
    return num_bytes >= least_bytes && !pieces.back().empty() &&
           !ContinuesUtf8Char(pieces.back()[0]);
  };
  while (tail.first > 0 && !tokenizer.IsBetweenTexts(tokens, tail.first - 1)) {
    if (!pieces.empty() && may_begin()) break;
    pieces.push_back(tokenizer.Piece(tokens[--tail.first]));
    num_bytes += pieces.back().size();
  }
  tail.is_whole = tail.first == 0 || tokenizer.IsBetweenTexts(tokens, tail.first - 1);
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    tail.begins.push_back(tail.text.size());
    tail.text += *piece;
  }
  if (tail.is_whole && tokenizer.adds_space() && tail.text.starts_with(' ')) {
    tail.text.erase(0, 1);
    for (size_t& begin : tail.begins) begin -= std::min<size_t>(begin, 1);
  }
  return tail;
}

// Looks at the limits of a text after every piece_bytes of it, however short its runs are.
class LimitWatch {
 public:
  explicit LimitWatch(const TokenizeLimits& limits) : limits_(limits) {}

  // Counts a run that has been tokenized. `num_tokens`: those of all runs. Errors: kCancelled.
  Status AddRun(size_t num_bytes, size_t num_tokens) {
    num_bytes_ += num_bytes;
    num_unseen_ += num_bytes;
    if (num_unseen_ < limits_.piece_bytes) return Status::Ok();
    num_unseen_ = 0;
    has_enough_ = num_tokens > limits_.max_tokens;
    if (has_enough_ || !limits_.progress || limits_.progress(num_bytes_, num_bytes_)) {
      return Status::Ok();
    }
    return Status::Cancelled("stopped after " + std::to_string(num_bytes_) + " bytes of the text");
  }
  // Whether there are more tokens than the limit.
  bool has_enough() const { return has_enough_; }

 private:
  const TokenizeLimits& limits_;
  uint64_t num_bytes_ = 0;
  uint64_t num_unseen_ = 0;  // Bytes behind the last look.
  bool has_enough_ = false;
};

class TextJoiner {
 public:
  TextJoiner(const Tokenizer& tokenizer, std::span<const TokenId> before,
             const JoinOptions& options)
      : tokenizer_(tokenizer),
        options_(options),
        num_before_(before.size()),
        watch_(options.limits) {
    joined_.tokens.assign(before.begin(), before.end());
    if (before.empty()) joined_.tokens = tokenizer.BeginOfText();
    joined_.num_kept = num_before_;
  }

  Status Add(const PromptPart& part) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<MarkupItem>* const items, ItemsOf(part.markup));
    for (const MarkupItem& item : *items) {
      if (!item.control) {
        run_ += item.text;
        continue;
      }
      ATTNDB_RETURN_IF_ERROR(EndRun());
      joined_.tokens.push_back(*item.control);
    }
    joined_.contents.emplace_back();
    contents_.push_back(
        {joined_.contents.size() - 1, run_.size(), run_.size() + part.content.size()});
    run_ += part.content;
    return Status::Ok();
  }

  // Whether no more parts are wanted: the limit is passed.
  bool has_enough() const { return watch_.has_enough(); }

  // Parts that were not added have no tokens.
  Result<JoinedText> Finish(size_t num_parts) {
    ATTNDB_RETURN_IF_ERROR(EndRun());
    joined_.contents.resize(num_parts);
    return std::move(joined_);
  }

 private:
  // A part's content, by its bytes in the run.
  struct Content {
    size_t part;
    size_t begin;
    size_t end;
  };

  // `num_stored`: tokens of the text that don't count for the limit, because they are stored.
  Result<Tokens> IdsOf(std::string_view text, size_t num_stored = 0) const {
    TokenizeLimits limits = options_.limits;
    limits.max_tokens += std::min<uint64_t>(num_stored, UINT64_MAX - limits.max_tokens);
    return tokenizer_.Tokenize(text, /*add_special=*/false, /*parse_special=*/false, limits);
  }

  // Templates repeat their markup.
  Result<const std::vector<MarkupItem>*> ItemsOf(const std::string& markup) {
    const auto known = items_.find(markup);
    if (known != items_.end()) return &known->second;
    ATTNDB_ASSIGN_OR_RETURN(std::vector<MarkupItem> items, Split(markup));
    return &items_.emplace(markup, std::move(items)).first->second;
  }

  // llama.cpp finds the control tokens; each is then found in the text by its own text. Some take
  // the spaces beside them: only those of the template go, never those of a content.
  Result<std::vector<MarkupItem>> Split(const std::string& markup) const {
    ATTNDB_ASSIGN_OR_RETURN(const Tokens ids, tokenizer_.Tokenize(markup, false, true));
    std::vector<MarkupItem> items;
    std::string_view rest = markup;
    const auto add_text = [&items](std::string_view text) {
      if (!text.empty()) items.push_back({std::string(text), std::nullopt});
    };
    for (const TokenId id : ids) {
      if (!tokenizer_.IsControl(id)) continue;
      ATTNDB_ASSIGN_OR_RETURN(const std::string name,
                              tokenizer_.Detokenize(std::span(&id, 1), true));
      const size_t at = name.empty() ? std::string_view::npos : rest.find(name);
      if (at == std::string_view::npos) continue;
      std::string_view text = rest.substr(0, at);
      while (tokenizer_.StripsLeft(id) && !text.empty() && IsSpace(text.back())) {
        text.remove_suffix(1);
      }
      add_text(text);
      items.push_back({"", id});
      rest.remove_prefix(at + name.size());
      while (tokenizer_.StripsRight(id) && !rest.empty() && IsSpace(rest.front())) {
        rest.remove_prefix(1);
      }
    }
    add_text(rest);
    return items;
  }

  // The tokens of the run are known: what comes next stands behind a control token, or is nothing.
  Status EndRun() {
    const size_t num_tokens = joined_.tokens.size();
    const bool goes_on = num_tokens > 0 && num_tokens == num_before_ && !run_.empty() &&
                         !tokenizer_.IsBetweenTexts(joined_.tokens, num_tokens - 1);
    if (goes_on) {
      ATTNDB_RETURN_IF_ERROR(GoOn());
    } else if (!run_.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(const Tokens ids, IdsOf(run_));
      AppendIds(ids, run_, /*num_old_bytes=*/0);
    } else {
      NoteContents({0}, joined_.tokens.size(), 0);
    }
    const size_t num_bytes = run_.size();
    run_.clear();
    contents_.clear();
    return watch_.AddRun(num_bytes,
                         joined_.tokens.size() - std::min(num_before_, joined_.tokens.size()));
  }

  // Appends ids of `text`, whose first bytes are of stored tokens.
  void AppendIds(std::span<const TokenId> ids, std::string_view text, size_t num_old_bytes) {
    const size_t first = joined_.tokens.size();
    joined_.tokens.insert(joined_.tokens.end(), ids.begin(), ids.end());
    if (!contents_.empty()) NoteContents(BeginsOf(tokenizer_, ids, text), first, num_old_bytes);
  }

  // A token belongs to the content that its last byte is of: words take the space before them.
  void NoteContents(const std::vector<size_t>& begins, size_t first, size_t num_old_bytes) {
    const auto ends = std::span(begins).subspan(1);
    const auto token_at = [&](size_t byte) {
      if (byte >= run_.size()) return first + ends.size();
      const auto at = std::upper_bound(ends.begin(), ends.end(), byte + num_old_bytes);
      return first + static_cast<size_t>(at - ends.begin());
    };
    for (const Content& content : contents_) {
      joined_.contents[content.part] = {token_at(content.begin), token_at(content.end)};
    }
  }

  // The run goes on from stored tokens.
  Status GoOn() {
    for (size_t num_bytes = kTailBytes;; num_bytes *= kTailGrowth) {
      const Tail tail = TailOf(tokenizer_, joined_.tokens, num_bytes);
      const std::optional<size_t> from = CutOf(tail);
      if (!from && !tail.is_whole) continue;
      return GoOnFrom(tail, from.value_or(0));
    }
  }

  // The last token of the tail before which the run may be cut.
  std::optional<size_t> CutOf(const Tail& tail) const {
    std::vector<size_t> places;
    for (const size_t begin : tail.begins) {
      // A piece leaves its first space to the tokenizer, and must have more than that.
      if (begin + (tokenizer_.adds_space() ? 1 : 0) < tail.text.size()) places.push_back(begin);
    }
    const std::string text = tail.text + run_.substr(0, kLookAheadBytes);
    const std::optional<size_t> at = tokenizer_.cuts().Last(text, places);
    if (!at) return std::nullopt;
    return std::lower_bound(tail.begins.begin(), tail.begins.end(), *at) - tail.begins.begin();
  }

  // Tokenizes the run again from the tail's token `from`, which is a cut or where the run begins.
  Status GoOnFrom(const Tail& tail, size_t from) {
    const size_t first = tail.first + from;
    const bool is_cut = first > tail.first || !tail.is_whole;
    const size_t begin = tail.begins[from] + (is_cut && tokenizer_.adds_space() ? 1 : 0);
    const std::string old_text = tail.text.substr(begin);
    const std::string text = old_text + run_;
    ATTNDB_ASSIGN_OR_RETURN(const Tokens old_ids, IdsOf(old_text));
    ATTNDB_ASSIGN_OR_RETURN(const Tokens ids, IdsOf(text, old_ids.size()));
    const auto stored = std::span<const TokenId>(joined_.tokens).subspan(first);
    if (!options_.keeps_before && std::ranges::equal(old_ids, stored)) {
      const auto differ = std::ranges::mismatch(ids, stored);
      joined_.num_kept = first + static_cast<size_t>(differ.in1 - ids.begin());
      joined_.tokens.resize(first);
      AppendIds(ids, text, old_text.size());
      return Status::Ok();
    }
    const std::vector<size_t> begins = BeginsOf(tokenizer_, ids, text);
    const auto at = std::lower_bound(begins.begin(), begins.end() - 1, old_text.size());
    if (begins.back() == text.size() && at != begins.end() - 1 && *at == old_text.size()) {
      AppendIds(std::span(ids).subspan(static_cast<size_t>(at - begins.begin())), run_, 0);
      return Status::Ok();
    }
    ATTNDB_ASSIGN_OR_RETURN(const Tokens behind, IdsBehindText(run_));
    AppendIds(behind, run_, 0);
    return Status::Ok();
  }

  // The ids of a text behind another one, none of which goes across.
  Result<Tokens> IdsBehindText(const std::string& text) const {
    for (const std::string_view anchor : {"\n", ".", "x"}) {
      if (!tokenizer_.adds_space()) break;
      const std::string both = std::string(anchor) + text;
      ATTNDB_ASSIGN_OR_RETURN(const Tokens ids, IdsOf(both));
      const std::vector<size_t> begins = BeginsOf(tokenizer_, ids, both);
      const auto at = std::lower_bound(begins.begin(), begins.end(), anchor.size());
      if (begins.back() != both.size() || at == begins.end() || *at != anchor.size()) continue;
      return Tokens(ids.begin() + (at - begins.begin()), ids.end());
    }
    return IdsOf(text);
  }

  const Tokenizer& tokenizer_;
  const JoinOptions& options_;
  const size_t num_before_;
  LimitWatch watch_;
  JoinedText joined_;
  std::string run_;                // Text behind the last control token that is not tokenized yet.
  std::vector<Content> contents_;  // Those in run_.
  std::map<std::string, std::vector<MarkupItem>> items_;  // By markup.
};

}  // namespace

Result<JoinedText> JoinText(const Tokenizer& tokenizer, std::span<const TokenId> before,
                            std::span<const PromptPart> parts, const JoinOptions& options) {
  ATTNDB_RETURN_IF_ERROR(tokenizer.CheckIds(before));
  try {
    TextJoiner joiner(tokenizer, before, options);
    for (size_t i = 0; i < parts.size() && !joiner.has_enough(); ++i) {
      ATTNDB_RETURN_IF_ERROR(joiner.Add(parts[i]));
    }
    return joiner.Finish(parts.size());
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("memory for the tokens of a text");
  } catch (const std::exception& error) {
    return Status::InvalidArgument(std::string("the model's vocabulary can't hold the text: ") +
                                   error.what());
  }
}

Result<Tokens> TokenizedAtOnce(const Tokenizer& tokenizer, std::span<const TokenId> tokens,
                               const TokenizeLimits& limits) {
  Tokens whole;
  LimitWatch watch(limits);
  for (size_t begin = 0; begin < tokens.size() && !watch.has_enough();) {
    size_t end = begin;
    while (end < tokens.size() && !tokenizer.IsBetweenTexts(tokens, end)) ++end;
    ATTNDB_ASSIGN_OR_RETURN(const std::string text,
                            tokenizer.Detokenize(tokens.subspan(begin, end - begin), false));
    ATTNDB_ASSIGN_OR_RETURN(const Tokens ids, tokenizer.Tokenize(text, false, false, limits));
    whole.insert(whole.end(), ids.begin(), ids.end());
    ATTNDB_RETURN_IF_ERROR(watch.AddRun(text.size(), whole.size()));
    for (; end < tokens.size() && tokenizer.IsBetweenTexts(tokens, end); ++end) {
      whole.push_back(tokens[end]);
    }
    begin = end;
  }
  return whole;
}

}  // namespace attndb::llama
