#include "engines/llama/left_out.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "engines/llama/prompt_items.h"
#include "engines/llama/run_joiner.h"

namespace attndb::llama {
namespace {

class Walk {
 public:
  Walk(const TokenSymbols& stored, std::span<const TextSymbol> prompt, bool adds_space)
      : stored_(stored), prompt_(prompt), adds_space_(adds_space) {}

  std::vector<TokenRange> Run() {
    while (next_.token < stored_.ends.size() && next_.at < prompt_.size()) {
      const Place before = next_;
      if (Step(&next_)) {
        passed_.push_front(before);
        if (passed_.size() > kMostBack) passed_.pop_back();
      } else if (!TakePiece()) {
        break;
      }
    }
    return std::move(left_);
  }

 private:
  // Before a stored token, and before the symbol that the prompt has there.
  struct Place {
    size_t token = 0;
    size_t at = 0;
    bool begins_text = true;  // A control token is kept before it, or none.
  };

  std::span<const TextSymbol> SymbolsOf(size_t token) const {
    const size_t begin = token == 0 ? 0 : stored_.ends[token - 1];
    return std::span(stored_.symbols).subspan(begin, stored_.ends[token] - begin);
  }
  bool IsControl(size_t token) const {
    const std::span<const TextSymbol> symbols = SymbolsOf(token);
    return !symbols.empty() && symbols.front() >= kControlSymbol;
  }

  // Goes beyond the token if the prompt says what it says.
  bool Step(Place* place) {
    ++num_checks_;
    const std::span<const TextSymbol> symbols = SymbolsOf(place->token);
    if (symbols.empty()) return false;
    const std::span<const TextSymbol> rest = prompt_.subspan(place->at);
    const auto begins = [&rest](std::span<const TextSymbol> with) {
      return with.size() <= rest.size() && std::ranges::equal(with, rest.first(with.size()));
    };
    size_t num_said = symbols.size();
    const bool has_space = adds_space_ && place->begins_text && symbols.front() == ' ';
    if (has_space && begins(symbols.subspan(1))) {
      --num_said;
    } else if (!begins(symbols)) {
      return false;
    }
    place->begins_text = IsControl(place->token);
    place->at += num_said;
    ++place->token;
    return true;
  }

  // Whether tokens from this place on say what the prompt says, and enough of them more than the
  // walk has found.
  bool IsSame(Place place) {
    size_t num_same = 0;
    while (num_same < kLeastSame) {
      if (place.token == stored_.ends.size() || !Step(&place)) return false;
      if (place.at > next_.at) ++num_same;
    }
    return true;
  }

  // The first place behind the walk from which stored tokens go on as the prompt does at `from`.
  std::optional<Place> Behind(const Place& from) {
    for (size_t token = next_.token + 1; token + kLeastSame <= stored_.ends.size(); ++token) {
      const Place place = {token, from.at, from.begins_text};
      if (IsSame(place)) return place;
      if (num_checks_ > kMostChecks) break;
    }
    return std::nullopt;
  }

  // Whether a piece may begin here.
  bool MayBegin(const Place& from) const {
    return from.token >= (left_.empty() ? 1 : left_.back().end + kLeastSame);
  }

  bool TakePiece() {
    if (left_.size() == kMostPieces) return false;
    for (size_t back = 0; back <= passed_.size(); ++back) {
      const Place from = back == 0 ? next_ : passed_[back - 1];
      if (!MayBegin(from) || num_checks_ > kMostChecks) return false;
      const std::optional<Place> place = Behind(from);
      if (!place) continue;
      left_.push_back({from.token, place->token});
      next_ = *place;
      passed_.clear();
      return true;
    }
    return false;
  }

  const TokenSymbols& stored_;
  const std::span<const TextSymbol> prompt_;
  const bool adds_space_;
  Place next_;
  std::deque<Place> passed_;  // The last kMostBack places, the nearest first. No piece is between.
  std::vector<TokenRange> left_;
  uint64_t num_checks_ = 0;
};

TextSymbol ControlSymbol(TokenId token) { return kControlSymbol + static_cast<TextSymbol>(token); }

void AppendBytes(std::string_view bytes, std::vector<TextSymbol>* symbols) {
  for (const char c : bytes) symbols->push_back(static_cast<unsigned char>(c));
}

std::vector<TextSymbol> SymbolsOfItems(std::span<const PromptItem> items) {
  std::vector<TextSymbol> symbols;
  for (const PromptItem& item : items) {
    if (item.control) {
      symbols.push_back(ControlSymbol(*item.control));
    } else {
      AppendBytes(item.text, &symbols);
    }
  }
  return symbols;
}

// Returns the symbols of before[first] and of the tokens behind it.
TokenSymbols SymbolsOfTokens(const Tokenizer& tokenizer, std::span<const TokenId> before,
                             size_t first) {
  TokenSymbols stored;
  std::vector<TextSymbol> symbols;
  for (size_t i = first; i < before.size(); ++i) {
    symbols.clear();
    if (tokenizer.IsBetweenTexts(before, i)) {
      symbols.push_back(ControlSymbol(before[i]));
    } else {
      AppendBytes(tokenizer.Piece(before[i]), &symbols);
    }
    stored.Add(symbols);
  }
  return stored;
}

std::vector<TokenRange> LeftOutOfItems(const Tokenizer& tokenizer, std::span<const TokenId> before,
                                       std::span<const PromptItem> items) {
  const std::vector<TokenId> begin = tokenizer.BeginOfText();
  if (before.empty() || (!begin.empty() && before.front() != begin.front())) return {};
  std::vector<PromptItem> bare(items.begin(), items.end());
  StripSpaces(tokenizer, bare);
  const size_t first = begin.size();
  std::vector<TokenRange> left = LeftOut(SymbolsOfTokens(tokenizer, before, first),
                                         SymbolsOfItems(bare), tokenizer.adds_space());
  for (TokenRange& range : left) range = {range.begin + first, range.end + first};
  return left;
}

}  // namespace

std::vector<TokenRange> LeftOut(const TokenSymbols& stored, std::span<const TextSymbol> prompt,
                                bool adds_space) {
  return Walk(stored, prompt, adds_space).Run();
}

Result<std::vector<TokenRange>> LeftOutOfText(const Tokenizer& tokenizer,
                                              std::span<const TokenId> before,
                                              std::span<const PromptItem> items) {
  ATTNDB_RETURN_IF_ERROR(tokenizer.CheckPresent());
  ATTNDB_RETURN_IF_ERROR(tokenizer.CheckIds(before));
  return WithoutExceptions([&]() -> Result<std::vector<TokenRange>> {
    return LeftOutOfItems(tokenizer, before, items);
  });
}

}  // namespace attndb::llama
