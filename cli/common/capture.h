// A prefill that keeps q, k and v of some layers in a KV file: real vectors for benchmarks.
//
// Method:  the tokens run through the engine on a session in a temporary store. K and V are read
//          from the session at the end; q of the last tokens is kept in memory as it comes by.
// Units:   layers count from 0; q is float32, K and V are of the engine's kv_dtype.
// Errors:  kInvalidArgument; kAlreadyExists (the file); kResourceExhausted (not enough memory, said
//          before the prefill); kCancelled; as LlamaEngine::Prefill. No file is left then.
// Threads: one call at a time.
#ifndef ATTNDB_CLI_COMMON_CAPTURE_H_
#define ATTNDB_CLI_COMMON_CAPTURE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/session.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

struct CaptureOptions {
  std::vector<LayerId> layers;        // Ascending; empty = all.
  uint64_t num_queries = UINT64_MAX;  // Queries to keep: those of this many last tokens, or all.
  std::string plan = "full";          // Applies to every row, also in prefill.
  std::map<std::string, std::string> notes;
  std::function<bool(const llama::PrefillProgress&)> progress;  // False cancels.
};

// Writes `path`, which must not be there yet.
Status Capture(llama::LlamaEngine* engine, std::span<const TokenId> tokens,
               const CaptureOptions& options, const std::string& path);
// Does the same on a session that holds the first of `tokens`. Their q is not captured, and the
// session's plan applies. REQUIRES: the session lacks at least the last options.num_queries tokens.
Status Capture(llama::LlamaEngine* engine, Session* session, std::span<const TokenId> tokens,
               const CaptureOptions& options, const std::string& path);

// Ids of at least 0 with spaces, commas or lines between.
Result<std::vector<TokenId>> ParseTokenIds(std::string_view text);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_CAPTURE_H_
