// Searches the contexts of a store for a question: the heads to use, the model to load, and the
// contexts that they find.
//
// Errors:  as LlamaEngine::Prefill and DB::Find.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_LIBRARY_H_
#define ATTNDB_CLI_COMMON_LIBRARY_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/db.h"
#include "cli/common/engine_flags.h"
#include "cli/environment.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

// The heads of this model by which contexts are found. Measures them in a temporary store the first
// time, and keeps the result.
Result<std::vector<FindHead>> FindingHeads(Environment* env, llama::LlamaEngine* engine);

// Loads the model for these contexts: as ModelFlags::OpenFor for the first of them. If none is
// named, uses the type of K and V of the store's first context.
// Errors: kNotFound (no such context; an empty store); as ModelFlags::OpenFor.
Result<llama::LlamaEngine> OpenModelFor(Environment* env, const ModelFlags& model, const DB& db,
                                        std::span<const std::string> contexts);

// Returns at most `count` contexts with the best passages for a question, best first, among the
// named ones or all. Prints them on stderr.
// Errors: kNotFound (there is none of this model).
Result<std::vector<std::string>> BestContexts(Environment* env, llama::LlamaEngine* engine,
                                              const DB& db, std::string_view question,
                                              const std::vector<std::string>& among,
                                              uint32_t count);

// Says on stderr which contexts a search passed over, and why.
void NoteSkipped(Environment* env, const FindResult& found);
// The error of a question to a store that has nothing.
Status EmptyStore(Environment* env);
// The error of a search that had no context to look through.
Status NothingToLookThrough(Environment* env);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_LIBRARY_H_
