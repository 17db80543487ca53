#include "engines/llama/chat/token_tree.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "engines/llama/chat/token_piece.h"
#include "engines/llama/utf8_bytes.h"

namespace attndb::llama {
namespace {

constexpr llama_token kNone = -1;

// Bytes of the character that begins with this one; 0: none does.
size_t CharBytes(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  if (value < 0x80) return value == 0 ? 0 : 1;
  if (value < 0xC0 || value >= 0xF8) return 0;
  return value < 0xE0 ? 2 : value < 0xF0 ? 3 : 4;
}

// Whether longer texts may begin with this one: it has whole characters.
bool CanBegin(std::string_view text) {
  while (!text.empty()) {
    const size_t num_bytes = CharBytes(text[0]);
    if (num_bytes == 0 || num_bytes > text.size()) return false;
    if (!std::ranges::all_of(text.substr(1, num_bytes - 1), ContinuesUtf8Char)) return false;
    text.remove_prefix(num_bytes);
  }
  return true;
}

// The tokens in the order of their texts, shorter ones before those that begin with them.
std::vector<llama_token> Sorted(const std::vector<std::string>& pieces) {
  std::vector<llama_token> tokens(pieces.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::ranges::stable_sort(tokens, {}, [&pieces](llama_token token) -> const std::string& {
    return pieces[static_cast<size_t>(token)];
  });
  return tokens;
}

// The parent of each token.
std::vector<llama_token> ParentsOf(const llama_vocab* vocab,
                                   const std::vector<std::string>& pieces) {
  std::vector<llama_token> parents(pieces.size(), kNone);
  std::vector<llama_token> open;  // Each begins with the one before it.
  for (const llama_token token : Sorted(pieces)) {
    const std::string& piece = pieces[static_cast<size_t>(token)];
    if (piece.empty() || llama_vocab_is_eog(vocab, token)) continue;
    while (!open.empty() && !piece.starts_with(pieces[static_cast<size_t>(open.back())])) {
      open.pop_back();
    }
    if (!open.empty()) parents[static_cast<size_t>(token)] = open.back();
    if (CanBegin(piece)) open.push_back(token);
  }
  return parents;
}

std::optional<llama_token> UnfitToken(const llama_vocab* vocab) {
  const int32_t num_tokens = llama_vocab_n_tokens(vocab);
  for (llama_token token = 0; token < num_tokens; ++token) {
    if (llama_vocab_is_eog(vocab, token)) continue;
    char first = 0;
    // 0: no bytes. Negative: more than one, and it says nothing of them.
    const int32_t length = llama_token_to_piece(vocab, token, &first, 1, /*lstrip=*/0, true);
    if (length == 0 || (length == 1 && first == 0)) return token;
  }
  return std::nullopt;
}

// Behind a string or a set of characters that begins at `at`.
size_t BehindQuoted(std::string_view text, size_t at) {
  const char end = text[at] == '[' ? ']' : '"';
  for (++at; at < text.size() && text[at] != end; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

}  // namespace

TokenTree::TokenTree(const llama_vocab* vocab) : unfit_(UnfitToken(vocab)) {
  const auto num_tokens = static_cast<size_t>(llama_vocab_n_tokens(vocab));
  std::vector<std::string> pieces(num_tokens);
  for (size_t i = 0; i < num_tokens; ++i) pieces[i] = PieceOf(vocab, static_cast<llama_token>(i));
  const std::vector<llama_token> parents = ParentsOf(vocab, pieces);
  first_child_.resize(num_tokens + 1);
  for (const llama_token parent : parents) {
    if (parent != kNone) ++first_child_[static_cast<size_t>(parent) + 1];
  }
  std::partial_sum(first_child_.begin(), first_child_.end(), first_child_.begin());
  children_.resize(first_child_.back());
  std::vector<size_t> next = first_child_;
  for (size_t i = 0; i < num_tokens; ++i) {
    const auto token = static_cast<llama_token>(i);
    if (parents[i] == kNone) {
      roots_.push_back(token);
    } else {
      children_[next[static_cast<size_t>(parents[i])]++] = token;
    }
  }
}

bool HasTokenRules(std::string_view grammar) {
  for (size_t at = 0; at < grammar.size();) {
    const char c = grammar[at];
    if (c == '<') return true;
    if (c == '"' || c == '[') {
      at = BehindQuoted(grammar, at);
    } else if (c == '#') {
      at = std::min(grammar.find_first_of("\r\n", at), grammar.size());
    } else {
      ++at;
    }
  }
  return false;
}

}  // namespace attndb::llama
