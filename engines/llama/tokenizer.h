// Text to token ids and back, through the model's own tokenizer in llama.cpp.
//
// Threads: thread-safe (llama.cpp's tokenizer is).
// Errors:  kUnsupported (the model file has no tokenizer); kInvalidArgument (a text or an id that
//          the vocabulary does not have); kResourceExhausted (memory); kCancelled (by progress).
#ifndef ATTNDB_ENGINES_LLAMA_TOKENIZER_H_
#define ATTNDB_ENGINES_LLAMA_TOKENIZER_H_

#include <llama.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/special_tokens.h"
#include "engines/llama/text_cuts.h"

namespace attndb::llama {

class Tokenizer {
 public:
  // `vocab` outlives this.
  explicit Tokenizer(const llama_vocab* vocab);

  bool present() const { return present_; }
  // Errors: kUnsupported: the model has no tokenizer.
  Status CheckPresent() const;
  uint32_t vocab_size() const { return vocab_size_; }

  // LlamaEngine::Tokenize.
  Result<std::vector<TokenId>> Tokenize(std::string_view text, bool add_special, bool parse_special,
                                        const TokenizeLimits& limits = {}) const;
  // LlamaEngine::Detokenize: each run of text between control tokens is one text, so that a space
  // that the tokenizer set before it goes.
  Result<std::string> Detokenize(std::span<const TokenId> tokens, bool render_special) const;

  // LlamaEngine::ReplyText.
  Result<std::string> ReplyText(std::span<const TokenId> tokens) const;
  // The bytes of one token, which may be a part of a character. Control tokens give nothing, or
  // their names. REQUIRES: present(), token inside the vocabulary.
  std::string Piece(TokenId token, bool render_special = false) const;

  // The begin-of-text token, if the model wants a text to begin with it.
  std::vector<TokenId> BeginOfText() const;
  bool IsEndOfGeneration(TokenId token) const;
  // Tokens that the model file keeps out of replies: parts of pictures or sounds, for example.
  std::span<const TokenId> Suppressed() const;
  bool IsControl(TokenId token) const;
  // Whether tokens[idx] stands between texts: a control token, or the one that begins all texts.
  bool IsBetweenTexts(std::span<const TokenId> tokens, size_t idx) const;
  // Whether a token that is found in a text takes the spaces before, or behind it.
  bool StripsLeft(TokenId token) const;
  bool StripsRight(TokenId token) const;
  // Whether a space is set before each text.
  bool adds_space() const { return adds_space_; }
  // Made by the first call, which reads the vocabulary. REQUIRES: present().
  const TextCuts& cuts() const;
  // Likewise.
  const SpecialTokens& special() const;

  // Errors: kInvalidArgument naming the first id that is not in the vocabulary.
  Status CheckIds(std::span<const TokenId> tokens) const;

 private:
  // Appends the text of tokens as llama.cpp gives it.
  Status AppendText(std::span<const TokenId> tokens, bool render_special, std::string* text) const;
  // Whether llama.cpp must not get the text in one call: text_cuts.h.
  bool HasLongRun(std::string_view text) const;
  // These may throw what llama.cpp throws.
  Result<std::vector<TokenId>> TryTokenize(std::string_view text, bool add_special,
                                           bool parse_special) const;
  Result<std::vector<TokenId>> TryTokenizePieces(std::string_view text, bool add_special,
                                                 const TokenizeLimits& limits) const;

  const llama_vocab* vocab_;
  bool present_;
  bool adds_space_;
  uint32_t vocab_size_;
  mutable std::once_flag cuts_made_;
  mutable std::unique_ptr<const TextCuts> cuts_;
  mutable std::once_flag special_made_;
  mutable std::unique_ptr<const SpecialTokens> special_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_TOKENIZER_H_
