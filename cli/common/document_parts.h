// The parts of a text that is longer than the model, for `import --split`. NAME.1, NAME.2 and so on
// are separate contexts.
//
// Units:   tokens, including those of the prompt's template.
// Errors:  of CheckParts: kAlreadyExists, kResourceExhausted, as DB; they name the part.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_DOCUMENT_PARTS_H_
#define ATTNDB_CLI_COMMON_DOCUMENT_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "attndb/db.h"
#include "attndb/result.h"
#include "cli/common/import_target.h"
#include "cli/environment.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/prompt_layout.h"

namespace attndb::cli {

struct DocumentPart {
  ImportTarget target;
  llama::PromptText document;
};

// Tokens of a text that is not split. `part_tokens`: --part-tokens, 0 without it.
uint64_t MostOfWhole(const llama::ModelInfo& info, uint64_t part_tokens);
// Tokens of a part. The model's length has room behind it, for a question and its answer.
uint64_t MostOfPart(const llama::ModelInfo& info, uint64_t part_tokens);

// "part 3 of 12", for messages.
std::string PartText(size_t index, size_t count);

// Whether the names of all parts are free, and there is room for all of them together. Asked before
// the first part is run, because that may take hours.
Status CheckParts(const DB& db, const ModelSpec& spec, std::span<const DocumentPart> parts,
                  const RoomOptions& room);

// Reports contexts of earlier imports of the text that are no part now: when the text was longer,
// or was not split.
Status NoteOtherParts(Environment* env, const DB& db, const std::string& name, size_t num_parts);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_DOCUMENT_PARTS_H_
