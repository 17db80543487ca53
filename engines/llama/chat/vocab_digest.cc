#include "engines/llama/chat/vocab_digest.h"

#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace attndb::llama {
namespace {

// FNV-1a (Fowler, Noll & Vo 1991), 64 bits.
class Fnv {
 public:
  void Add(const void* bytes, size_t size) {
    const auto* const begin = static_cast<const unsigned char*>(bytes);
    for (size_t i = 0; i < size; ++i) value_ = (value_ ^ begin[i]) * uint64_t{0x100000001b3};
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

std::string VocabDigest(const llama_vocab* vocab) {
  Fnv digest;
  if (llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_NONE) {
    const int32_t num_tokens = llama_vocab_n_tokens(vocab);
    for (llama_token token = 0; token < num_tokens; ++token) {
      const char* const text = llama_vocab_get_text(vocab, token);
      digest.Add(text, std::strlen(text) + 1);
      const int32_t attributes = static_cast<int32_t>(llama_vocab_get_attr(vocab, token)) << 1 |
                                 static_cast<int32_t>(llama_vocab_is_eog(vocab, token));
      digest.Add(&attributes, sizeof(attributes));
    }
  }
  std::array<char, 17> digits;
  std::snprintf(digits.data(), digits.size(), "%016" PRIx64, digest.value());
  return digits.data();
}

}  // namespace attndb::llama
