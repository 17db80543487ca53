// A document streamed through a window: how well it is predicted after tokens have left, and which
// of four passages is taken for the next.
//
// Method:  all ways share the first window. A token is scored by the logits before it, from the
//          first token after the first overflow on; a segment is what lies between two truncations.
//          At some places of each segment the model chooses between the tokens that follow and as
//          many from three other places of the document: right if these are the likeliest.
// Units:   negative log-likelihood in nats a token, in float64.
// Threads: one thread.
// Errors:  of the engine and of Session; kInvalidArgument (the document is too short).
#ifndef ATTNDB_BENCH_E2E_TRUNCATION_STREAM_H_
#define ATTNDB_BENCH_E2E_TRUNCATION_STREAM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "bench/e2e/truncation_ways.h"
#include "engines/llama/llama_engine.h"

namespace attndb::bench {

struct StreamOptions {
  Window window;
  uint64_t num_segments = 10;
  uint64_t choices_per_segment = 0;
  uint64_t choice_tokens = 16;
};

// What one way made of one document.
struct StreamResult {
  std::vector<double> segment_nll;  // Mean of each segment.
  std::vector<bool> chosen_right;   // In the order of the text.
};

// Tokens that a document must have.
uint64_t TokensOfStream(const StreamOptions& options);

// The session that has run the first window, for a way; the logits after it are the engine's.
Result<Session> FirstWindow(Way way, const StreamOptions& options, const DB& db,
                            llama::LlamaEngine* engine, std::span<const TokenId> document);

// Runs the rest of the document after `session`, which FirstWindow made.
Result<StreamResult> RunStream(Way way, const StreamOptions& options, const DB& db,
                               llama::LlamaEngine* engine, std::span<const TokenId> document,
                               Session session);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_E2E_TRUNCATION_STREAM_H_
