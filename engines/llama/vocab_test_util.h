// Vocabularies for tests of what tokenizes: SmolLM2's tokens under the tokenizers of many models.
//
// Threads: one thread.
#ifndef ATTNDB_ENGINES_LLAMA_VOCAB_TEST_UTIL_H_
#define ATTNDB_ENGINES_LLAMA_VOCAB_TEST_UTIL_H_

#include <gguf.h>
#include <llama.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "testing/temp_dir.h"

namespace attndb::llama {

using ModelPtr = std::unique_ptr<llama_model, decltype(&llama_model_free)>;

// In [0, n).
size_t Below(size_t n, std::mt19937_64* random);
// Words, numbers and signs of many kinds, at least `num_bytes` of them.
std::string RandomText(std::mt19937_64* random, size_t num_bytes);

// The texts of an array of a GGUF file.
std::vector<std::string> TextsOf(const gguf_context* file, const char* key);
void SetTexts(gguf_context* file, const char* key, const std::vector<std::string>& texts);

// These change a file with SmolLM2's vocabulary, whose first 17 tokens are control tokens.
void SetPreTokenizer(const char* pre, gguf_context* file);
// The same tokens as SentencePiece has them: "Ġthe" is "▁the". With `has_control` the control
// tokens stay some.
void MakeSentencePiece(bool adds_space, bool has_control, gguf_context* file);
// The same tokens as in BERT's tokenizer, which drops capitals and spaces.
void MakeWordPiece(gguf_context* file);
// The same tokens as in T5's tokenizer.
void MakeUnigram(gguf_context* file);
// Control tokens take the spaces behind them, as Phi-3's do.
void StripRight(gguf_context* file);
// "<mask>", a control token, takes the spaces before it, under the pre-tokenizer of Jina's models.
void StripLeft(gguf_context* file);

// Loads models that are a vocabulary alone.
class VocabMaker {
 public:
  VocabMaker();
  // SmolLM2's vocabulary, as `change` leaves it. Null: llama.cpp does not load it.
  ModelPtr Load(const std::function<void(gguf_context*)>& change) const;

 private:
  test::TempDir dir_ = test::TempDir::InMemory();
  std::unique_ptr<gguf_context, decltype(&gguf_free)> source_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_VOCAB_TEST_UTIL_H_
