// What a GGUF file says about its model, checked before llama.cpp acts on it: llama.cpp asserts
// some of it, divides by it or computes no numbers with it, and an assertion ends the process.
//
// Checked: only what plain llama.cpp dies of or goes wrong with; gguf_refusals_test has a file for
//          each. What llama.cpp refuses in order (keys that are missing or of another type, shapes
//          of tensors, a file that is cut off) is left to it.
// Source:  llama.cpp 0.5.0 (llama-model.cpp, llama-vocab.cpp, llama-adapter.cpp, src/models/): its
//          assertions, and the limits of its tables.
// Errors:  kInvalidArgument naming file, field, what was found and what was expected; kUnsupported
//          (a vocabulary that llama.cpp can't be trusted to read).
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_GGUF_CHECK_H_
#define ATTNDB_ENGINES_LLAMA_GGUF_CHECK_H_

#include <span>

#include "attndb/result.h"
#include "engines/llama/gguf_file.h"

namespace attndb::llama {

// `parts`: the files of one model, in order; the first has its keys. REQUIRES: at least one.
Status CheckModelFields(std::span<const GgufFile> parts);

// Checks the fields of a LoRA adapter's file.
Status CheckAdapterFields(const GgufFile& adapter);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_GGUF_CHECK_H_
