// What a GGUF file says about its model, checked before llama.cpp acts on it: llama.cpp asserts
// much of this, divides by it or allocates by it, and an assertion ends the process.
//
// Checked: types and ranges of the keys that decoders have; that heads, widths, layers, experts and
//          the vocabulary agree with each other and with the tensors. Whether a tensor has the
//          shape that its architecture wants is llama.cpp's own, orderly, check.
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
// `forms`: those that the parts were read with.
Status CheckModelFields(std::span<const GgufFile> parts, std::span<const TensorForm> forms);

// A LoRA adapter.
Status CheckAdapterFields(const GgufFile& adapter, std::span<const TensorForm> forms);

// The part of CheckModelFields that is about tokens. `num_rows`: of the token embedding; 0 =
// unknown.
Status CheckVocabulary(const GgufFile& model, uint64_t num_rows);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_GGUF_CHECK_H_
