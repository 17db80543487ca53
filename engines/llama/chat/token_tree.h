// The tokens of a vocabulary by the texts that they begin with, to find those that a grammar allows
// without trying each: where a text does not fit, no longer text that begins with it does.
//
// Threads: constant.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_TOKEN_TREE_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_TOKEN_TREE_H_

#include <llama.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace attndb::llama {

class TokenTree {
 public:
  // Takes some 20 ms for 50,000 tokens.
  explicit TokenTree(const llama_vocab* vocab);

  // Tokens that begin with no other token: to be tried in any case. Tokens that end a reply are
  // among them, since a grammar does not go by their text.
  std::span<const llama_token> roots() const { return roots_; }
  // Tokens whose longest beginning that is a token is this one. A text that ends within a character
  // is nobody's beginning: a grammar may refuse it, and take the whole character.
  std::span<const llama_token> children(llama_token token) const {
    const auto at = static_cast<size_t>(token);
    return std::span(children_).subspan(first_child_[at], first_child_[at + 1] - first_child_[at]);
  }
  // A token that no grammar allows once it is in force, for it has no text or begins with a zero
  // byte. nullopt: the vocabulary has none.
  std::optional<llama_token> unfit() const { return unfit_; }

 private:
  std::vector<llama_token> roots_;
  std::vector<llama_token> children_;  // By their parents.
  std::vector<size_t> first_child_;    // Where each token's begin in children_; then the end.
  std::optional<llama_token> unfit_;
};

// Whether a grammar has rules for tokens, which do not go by their text: "<|end|>" or "<[7]>"
// outside of strings.
bool HasTokenRules(std::string_view grammar);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_TOKEN_TREE_H_
