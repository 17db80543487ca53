#include "engines/llama/text_follow.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/llama/prompt_items.h"
#include "engines/llama/run_joiner.h"
#include "engines/llama/utf8_bytes.h"

namespace attndb::llama {
namespace {

using Place = PromptRun::Place;

// How far the tokens of a stored run spell a run of the prompt.
struct SpelledRun {
  size_t num_tokens = 0;  // These spell the first bytes of the run.
  size_t num_bytes = 0;
  bool is_whole = false;  // All tokens spell all bytes.
  // How far they agree: so many tokens and bytes, and bytes of the next token's piece among them.
  size_t agreed_tokens = 0;
  size_t agreed_bytes = 0;
  size_t piece_bytes = 0;
};

// Where stored tokens part from a prompt.
struct Parted {
  Place place;
  size_t token = 0;
  size_t token_byte = 0;
};

// How far stored tokens spell a prompt.
struct Spelled {
  size_t num_tokens = 0;
  Place rest;  // The bytes of the prompt behind those that are spelled.
  std::optional<Parted> parted;
};

// Walks the stored tokens and the prompt's items together.
class PromptWalk {
 public:
  // All of these outlive this. The spaces of `items` are stripped.
  PromptWalk(const Tokenizer& tokenizer, std::span<const TokenId> before,
             std::span<const PromptItem> items, const TokenizeLimits& limits)
      : tokenizer_(tokenizer), before_(before), items_(items), limits_(limits), watch_(limits) {}

  Result<Spelled> Run() {
    bool goes_on = TakeBeginOfText();
    while (goes_on) {
      ATTNDB_ASSIGN_OR_RETURN(goes_on, TakeRun());
      goes_on = goes_on && TakeControl();
    }
    return spelled_;
  }

 private:
  // Each of these returns whether the walk goes on.
  bool TakeBeginOfText() {
    const std::vector<TokenId> begin = tokenizer_.BeginOfText();
    if (begin.empty()) return true;
    if (before_.empty()) return false;
    if (before_.front() != begin.front()) return PartAt({0, 0}, 0, 0);
    spelled_.num_tokens = 1;
    return true;
  }

  bool TakeControl() {
    const size_t token = spelled_.num_tokens;
    const size_t item = spelled_.rest.item;
    if (token == before_.size() || item == items_.size()) return false;
    if (items_[item].control != before_[token]) return PartAt(spelled_.rest, token, 0);
    spelled_.num_tokens = token + 1;
    spelled_.rest = {item + 1, 0};
    return true;
  }

  Result<bool> TakeRun() {
    const PromptRun run(items_, spelled_.rest.item);
    const size_t first = spelled_.num_tokens;
    const std::span<const TokenId> stored = StoredRun();
    ATTNDB_ASSIGN_OR_RETURN(const SpelledRun spelled, Spell(stored, run.text()));
    bool is_whole = spelled.is_whole;
    const bool is_behind_stored =
        spelled.agreed_tokens == stored.size() && first + stored.size() == before_.size();
    const bool is_behind_prompt =
        spelled.agreed_bytes == run.text().size() && run.end_item() == items_.size();
    if (!is_whole && !is_behind_stored && !is_behind_prompt) {
      ATTNDB_ASSIGN_OR_RETURN(is_whole, IsTokenizedAs(stored, run.text()));
    }
    if (is_whole) {
      spelled_.num_tokens += stored.size();
      spelled_.rest = {run.end_item(), 0};
      return true;
    }
    spelled_.num_tokens += spelled.num_tokens;
    spelled_.rest = run.PlaceOf(spelled.num_bytes);
    if (is_behind_stored || is_behind_prompt) return false;
    return PartAt(run.PlaceOf(spelled.agreed_bytes), first + spelled.agreed_tokens,
                  spelled.piece_bytes);
  }

  bool PartAt(const Place& place, size_t token, size_t token_byte) {
    spelled_.parted = {place, token, token_byte};
    return false;
  }

  // The tokens up to the next control token.
  std::span<const TokenId> StoredRun() const {
    size_t end = spelled_.num_tokens;
    while (end < before_.size() && !tokenizer_.IsBetweenTexts(before_, end)) ++end;
    return before_.subspan(spelled_.num_tokens, end - spelled_.num_tokens);
  }

  // Whether the tokenizer makes these tokens of the text.
  Result<bool> IsTokenizedAs(std::span<const TokenId> ids, std::string_view text) const {
    if (text.empty()) return ids.empty();
    TokenizeLimits limits = limits_;
    limits.max_tokens = ids.size();
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> own,
                            tokenizer_.Tokenize(text, /*add_special=*/false,
                                                /*parse_special=*/false, limits));
    return std::ranges::equal(own, ids);
  }

  // Takes the better one of both readings of a space in front.
  Result<SpelledRun> Spell(std::span<const TokenId> ids, std::string_view text) {
    const bool adds_space = tokenizer_.adds_space();
    ATTNDB_ASSIGN_OR_RETURN(const SpelledRun first, SpellAs(ids, text, adds_space));
    if (!adds_space || first.is_whole) return first;
    ATTNDB_ASSIGN_OR_RETURN(const SpelledRun second, SpellAs(ids, text, false));
    return second.is_whole || second.num_tokens > first.num_tokens ? second : first;
  }

  // `drops_space`: a space in front is the tokenizer's own.
  Result<SpelledRun> SpellAs(std::span<const TokenId> ids, std::string_view text,
                             bool drops_space) {
    SpelledRun run;
    std::string_view rest = text;
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::string piece = tokenizer_.Piece(ids[i]);
      const size_t num_dropped = i == 0 && drops_space && piece.starts_with(' ') ? 1 : 0;
      const std::string_view bytes = std::string_view(piece).substr(num_dropped);
      const auto differ = std::ranges::mismatch(bytes, rest);
      const auto num_same = static_cast<size_t>(differ.in1 - bytes.begin());
      rest.remove_prefix(num_same);
      run.agreed_bytes += num_same;
      if (num_same < bytes.size() || piece.empty()) {
        run.piece_bytes = num_dropped + num_same;
        return run;
      }
      run.agreed_tokens = i + 1;
      // A space that is the tokenizer's own goes with the token behind it.
      const bool has_bytes = run.agreed_bytes > 0;
      if (has_bytes && (rest.empty() || !ContinuesUtf8Char(rest.front()))) {
        run.num_tokens = run.agreed_tokens;
        run.num_bytes = run.agreed_bytes;
      }
      ATTNDB_RETURN_IF_ERROR(watch_.AddRun(num_same, /*num_tokens=*/0));
    }
    run.is_whole = run.num_tokens == ids.size() && run.num_bytes == text.size();
    return run;
  }

  const Tokenizer& tokenizer_;
  const std::span<const TokenId> before_;
  const std::span<const PromptItem> items_;
  const TokenizeLimits& limits_;
  LimitWatch watch_;
  Spelled spelled_;
};

// Counts the bytes of a prompt over the texts of its items.
class PromptBytes {
 public:
  // `bare`: the same items, their spaces stripped. Both outlive this.
  PromptBytes(std::span<const PromptItem> items, std::span<const PromptItem> bare)
      : items_(items), bare_(bare), begins_({0}) {
    for (const PromptItem& item : items) begins_.push_back(begins_.back() + item.text.size());
  }

  // Offset in the item's text of a byte that is counted without the spaces that were stripped.
  uint64_t InItem(const Place& place) const {
    if (place.item == items_.size()) return 0;
    const auto num_stripped = bare_[place.item].text.data() - items_[place.item].text.data();
    return static_cast<uint64_t>(num_stripped) + place.byte;
  }
  uint64_t InPrompt(const Place& place) const { return begins_[place.item] + InItem(place); }
  uint64_t EndOf(size_t item) const { return begins_[item + 1]; }

 private:
  std::span<const PromptItem> items_;
  std::span<const PromptItem> bare_;
  std::vector<uint64_t> begins_;  // Where each item begins, and where the last one ends.
};

// Returns the byte of the prompt at which each of its tokens ends.
std::vector<uint64_t> EndsOf(const Tokenizer& tokenizer, std::span<const TokenId> tokens,
                             std::span<const PromptItem> bare, const PromptBytes& bytes) {
  std::vector<uint64_t> ends(tokenizer.BeginOfText().size(), 0);
  for (size_t item = 0; ends.size() < tokens.size(); ++item) {
    const PromptRun run(bare, item);
    std::span<const TokenId> ids = tokens.subspan(ends.size());
    const bool is_last = run.end_item() == bare.size();
    const auto end = is_last ? ids.end() : std::ranges::find(ids, *bare[run.end_item()].control);
    ids = ids.first(static_cast<size_t>(end - ids.begin()));
    const std::vector<size_t> begins = BeginsOf(tokenizer, ids, run.text());
    for (const size_t at : std::span(begins).subspan(1)) {
      const size_t in_run = std::min(at, run.text().size());
      // A token ends behind its last byte, not at the next item's first one.
      ends.push_back(in_run == 0 ? bytes.InPrompt(run.PlaceOf(0))
                                 : bytes.InPrompt(run.PlaceOf(in_run - 1)) + 1);
    }
    if (is_last) break;
    item = run.end_item();
    if (ends.size() < tokens.size()) ends.push_back(bytes.EndOf(item));
  }
  return ends;
}

// Returns the tokens of each message. A token belongs to the message that its last byte is of.
std::vector<TokenRange> TokensOfMessages(std::span<const ByteRange> messages,
                                         std::span<const uint64_t> ends) {
  const auto token_at = [ends](uint64_t byte) {
    return static_cast<uint64_t>(std::ranges::upper_bound(ends, byte) - ends.begin());
  };
  std::vector<TokenRange> tokens;
  for (const ByteRange& message : messages) {
    tokens.push_back({token_at(message.begin), token_at(message.end)});
  }
  return tokens;
}

PromptParting PartingAt(const Parted& parted, const PromptBytes& bytes,
                        std::span<const ByteRange> messages) {
  PromptParting parting = {parted.place.item, bytes.InItem(parted.place),
                           bytes.InPrompt(parted.place), parted.token, parted.token_byte};
  const auto message = std::ranges::find_if(
      messages, [&](const ByteRange& range) { return range.end >= parting.prompt_byte; });
  parting.message = static_cast<size_t>(message - messages.begin());
  if (message != messages.end() && parting.prompt_byte > message->begin) {
    parting.message_byte = parting.prompt_byte - message->begin;
  }
  return parting;
}

Status CheckItems(const Tokenizer& tokenizer, std::span<const PromptItem> items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].control) continue;
    const TokenId id = *items[i].control;
    const bool is_known = id >= 0 && static_cast<uint32_t>(id) < tokenizer.vocab_size();
    if (!is_known || !tokenizer.IsControl(id)) {
      return Status::InvalidArgument("item " + std::to_string(i) + " of the prompt is id " +
                                     std::to_string(id) + ", expected a control token");
    }
    if (items[i].text.empty()) {
      return Status::InvalidArgument("item " + std::to_string(i) + " of the prompt is id " +
                                     std::to_string(id) + " without its name");
    }
  }
  return Status::Ok();
}

// The text of the next stored tokens, up to a control token: as much as a tokenizer looks ahead at.
std::string TextBehind(const Tokenizer& tokenizer, std::span<const TokenId> before, size_t first) {
  constexpr size_t kBehindBytes = 64;
  std::string text;
  for (size_t i = first; i < before.size() && text.size() < kBehindBytes; ++i) {
    if (tokenizer.IsBetweenTexts(before, i)) break;
    text += tokenizer.Piece(before[i]);
  }
  return text;
}

// The tokens of the rest of a prompt, behind those that spell its beginning.
Result<JoinedText> JoinRest(const Tokenizer& tokenizer, std::span<const TokenId> before,
                            std::span<const PromptItem> bare, const Spelled& spelled,
                            const JoinOptions& options) {
  const Place& rest = spelled.rest;
  RunJoiner joiner(tokenizer, before.first(spelled.num_tokens), options);
  joiner.SetStoredBehind(TextBehind(tokenizer, before, spelled.num_tokens));
  for (size_t i = rest.item; i < bare.size() && !joiner.has_enough(); ++i) {
    PromptItem item = bare[i];
    item.is_content = false;  // The joiner sees no beginning of contents.
    if (i == rest.item) item.text.remove_prefix(rest.byte);
    ATTNDB_RETURN_IF_ERROR(joiner.Add(item));
  }
  return joiner.Finish(/*num_contents=*/0);
}

Result<FollowedText> TryFollow(const Tokenizer& tokenizer, std::span<const TokenId> before,
                               std::span<const PromptItem> items, const FollowOptions& options) {
  std::vector<PromptItem> bare(items.begin(), items.end());
  StripSpaces(tokenizer, bare);
  ATTNDB_ASSIGN_OR_RETURN(const Spelled spelled,
                          PromptWalk(tokenizer, before, bare, options.limits).Run());
  const JoinOptions join = {.keeps_before = options.keeps_before, .limits = options.limits};
  FollowedText followed;
  ATTNDB_ASSIGN_OR_RETURN(followed.joined, JoinRest(tokenizer, before, bare, spelled, join));
  JoinedText& joined = followed.joined;
  const auto differ = std::ranges::mismatch(joined.tokens, before);
  joined.num_kept = static_cast<uint64_t>(differ.in1 - joined.tokens.begin());
  const PromptBytes bytes(items, bare);
  if (spelled.parted && joined.num_kept < before.size()) {
    followed.parted = PartingAt(*spelled.parted, bytes, options.messages);
  }
  if (!options.messages.empty()) {
    joined.contents =
        TokensOfMessages(options.messages, EndsOf(tokenizer, joined.tokens, bare, bytes));
  }
  return followed;
}

}  // namespace

Result<FollowedText> FollowText(const Tokenizer& tokenizer, std::span<const TokenId> before,
                                std::span<const PromptItem> items, const FollowOptions& options) {
  ATTNDB_RETURN_IF_ERROR(tokenizer.CheckPresent());
  ATTNDB_RETURN_IF_ERROR(tokenizer.CheckIds(before));
  ATTNDB_RETURN_IF_ERROR(CheckItems(tokenizer, items));
  return WithoutExceptions([&] { return TryFollow(tokenizer, before, items, options); });
}

}  // namespace attndb::llama
