// Text to token ids and back, through the model's own tokenizer in llama.cpp.
//
// Threads: thread-safe (llama.cpp's tokenizer is).
// Errors:  kUnsupported (the model file has no tokenizer); kInvalidArgument (a text or an id that
//          the vocabulary does not have); kResourceExhausted (memory); kCancelled (by progress).
#ifndef ATTNDB_ENGINES_LLAMA_TOKENIZER_H_
#define ATTNDB_ENGINES_LLAMA_TOKENIZER_H_

#include <llama.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

class Tokenizer {
 public:
  // `vocab` outlives this.
  explicit Tokenizer(const llama_vocab* vocab);

  bool present() const { return present_; }
  uint32_t vocab_size() const { return vocab_size_; }

  // LlamaEngine::Tokenize.
  Result<std::vector<TokenId>> Tokenize(std::string_view text, bool add_special, bool parse_special,
                                        const TokenizeLimits& limits = {}) const;
  Result<std::string> Detokenize(std::span<const TokenId> tokens, bool render_special) const;

  // LlamaEngine::ReplyText.
  Result<std::string> ReplyText(std::span<const TokenId> tokens) const;
  // The bytes of one token, which may be a part of a character. Control tokens give nothing.
  // REQUIRES: present(), token inside the vocabulary.
  std::string Piece(TokenId token) const;

  // The begin-of-text token, if the model wants a text to begin with it.
  std::vector<TokenId> BeginOfText() const;
  bool IsEndOfGeneration(TokenId token) const;

  // Errors: kInvalidArgument naming the first id that is not in the vocabulary.
  Status CheckIds(std::span<const TokenId> tokens) const;

 private:
  Status CheckPresent() const;
  // Whether llama.cpp must not get the text in one call: text_cuts.h.
  bool HasLongRun(std::string_view text) const;
  // These may throw what llama.cpp throws.
  Result<std::vector<TokenId>> TryTokenize(std::string_view text, bool add_special,
                                           bool parse_special) const;
  Result<std::vector<TokenId>> TryTokenizePieces(std::string_view text, bool add_special,
                                                 const TokenizeLimits& limits) const;

  const llama_vocab* vocab_;
  bool present_;
  uint32_t vocab_size_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_TOKENIZER_H_
