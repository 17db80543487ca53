// A number that tells one vocabulary from another: two processes that loaded the same file see that
// they mean the same tokens.
//
// Threads: a pure function.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_VOCAB_DIGEST_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_VOCAB_DIGEST_H_

#include <llama.h>

#include <string>

namespace attndb::llama {

// In hexadecimal digits. Takes some milliseconds. It guards against a file that was replaced, not
// against one that was made to have the same number.
std::string VocabDigest(const llama_vocab* vocab);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_VOCAB_DIGEST_H_
