#include "engines/llama/prompt_items.h"

#include <algorithm>
#include <map>
#include <optional>

namespace attndb::llama {
namespace {

bool IsSpace(char c) { return std::string_view(" \t\n\v\f\r").find(c) != std::string_view::npos; }

// Whether the control tokens beside this item may take spaces of it, or of one beyond it.
bool GivesSpaces(const PromptItem& item) { return !item.control && !item.is_content; }

void StripFront(std::span<PromptItem> items) {
  for (PromptItem& item : items) {
    if (!GivesSpaces(item)) return;
    while (!item.text.empty() && IsSpace(item.text.front())) item.text.remove_prefix(1);
    if (!item.text.empty()) return;
  }
}

void StripBack(std::span<PromptItem> items) {
  for (size_t i = items.size(); i-- > 0;) {
    PromptItem& item = items[i];
    if (!GivesSpaces(item)) return;
    while (!item.text.empty() && IsSpace(item.text.back())) item.text.remove_suffix(1);
    if (!item.text.empty()) return;
  }
}

}  // namespace

Result<std::vector<PromptItem>> ItemsOfMarkup(const Tokenizer& tokenizer, std::string_view markup) {
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<TokenId> ids,
      tokenizer.Tokenize(markup, /*add_special=*/false, /*parse_special=*/true));
  std::vector<PromptItem> items;
  std::string_view rest = markup;
  const auto add_text = [&items](std::string_view text) {
    if (!text.empty()) items.push_back({text, std::nullopt, false});
  };
  for (const TokenId id : ids) {
    if (!tokenizer.IsControl(id)) continue;
    // Each is found in the text by its own text.
    ATTNDB_ASSIGN_OR_RETURN(const std::string name, tokenizer.Detokenize(std::span(&id, 1), true));
    const size_t at = name.empty() ? std::string_view::npos : rest.find(name);
    if (at == std::string_view::npos) continue;
    add_text(rest.substr(0, at));
    items.push_back({rest.substr(at, name.size()), id, false});
    rest.remove_prefix(at + name.size());
  }
  add_text(rest);
  return items;
}

Result<std::vector<PromptItem>> ItemsOfParts(const Tokenizer& tokenizer,
                                             std::span<const PromptPart> parts) {
  std::map<std::string_view, std::vector<PromptItem>> known;  // Templates repeat their markup.
  std::vector<PromptItem> items;
  for (const PromptPart& part : parts) {
    auto found = known.find(part.markup);
    if (found == known.end()) {
      ATTNDB_ASSIGN_OR_RETURN(auto own, ItemsOfMarkup(tokenizer, part.markup));
      found = known.emplace(part.markup, std::move(own)).first;
    }
    items.insert(items.end(), found->second.begin(), found->second.end());
    items.push_back({part.content, std::nullopt, true});
  }
  return items;
}

void StripSpaces(const Tokenizer& tokenizer, std::span<PromptItem> items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].control) continue;
    if (tokenizer.StripsLeft(*items[i].control)) StripBack(items.first(i));
    if (tokenizer.StripsRight(*items[i].control)) StripFront(items.subspan(i + 1));
  }
}

PromptRun::PromptRun(std::span<const PromptItem> items, size_t first) : first_(first), end_(first) {
  for (; end_ < items.size() && !items[end_].control; ++end_) {
    text_ += items[end_].text;
    ends_.push_back(text_.size());
  }
}

PromptRun::Place PromptRun::PlaceOf(size_t at) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), at);
  if (end == ends_.end()) return {end_, 0};
  const size_t begin = end == ends_.begin() ? 0 : *(end - 1);
  return {first_ + static_cast<size_t>(end - ends_.begin()), at - begin};
}

}  // namespace attndb::llama
