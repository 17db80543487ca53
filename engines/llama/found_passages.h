// Passages that DB::Find has found, as people read them.
//
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_FOUND_PASSAGES_H_
#define ATTNDB_ENGINES_LLAMA_FOUND_PASSAGES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/find.h"
#include "attndb/result.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

// Drops passages whose score is 0.00 with two digits: nothing in them stands out.
void DropPassagesWithoutScore(FindResult* found);

// The text of each passage; empty where the context was dropped meanwhile.
// Errors: as DB::Tokens and LlamaEngine::Detokenize.
Result<std::vector<std::string>> PassageTexts(const LlamaEngine& engine, const DB& db,
                                              const FindResult& found);

// The contexts of passages, best first, each once, as "#id"; `count` at most.
std::vector<std::string> ContextsOf(std::span<const Passage> passages, uint32_t count);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_FOUND_PASSAGES_H_
