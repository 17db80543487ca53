// Codes that stand in the half of a window that is kept: does the model still say them?
//
// Method:  codes of five digits for ten names are put into a part of a document that fills a
//          window, all of them into what is kept. Tokens leave as each way has it, some more of the
//          document runs, and each code is asked for: right if its digits, one after the other, are
//          the likeliest tokens. With `full` nothing leaves.
// Threads: one thread.
// Errors:  of the engine and of Session; kInvalidArgument (the document is too short).
#ifndef ATTNDB_BENCH_E2E_TRUNCATION_CODES_H_
#define ATTNDB_BENCH_E2E_TRUNCATION_CODES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "bench/e2e/truncation_ways.h"
#include "engines/llama/llama_engine.h"

namespace attndb::bench {

inline constexpr size_t kCodesOfText = 10;

// A text with its codes.
struct CodeText {
  struct Code {
    std::vector<TokenId> question;
    std::vector<TokenId> answer;
  };
  std::vector<TokenId> tokens;  // A window full.
  std::vector<TokenId> after;   // What runs after tokens have left.
  std::vector<Code> codes;
};

// A text of `document` from its token `begin` on, with other codes for each `seed`.
Result<CodeText> MakeCodeText(const llama::LlamaEngine& engine, const Window& window,
                              std::span<const TokenId> document, uint64_t begin, uint64_t seed);

// Whether each code was said by a session that holds the text, or what is left of it. Runs what
// comes after it.
Result<std::vector<bool>> AskCodesOf(const CodeText& text, Session& session,
                                     llama::LlamaEngine* engine);

// Whether each code was said, for each of `ways`.
Result<std::vector<std::vector<bool>>> AskCodes(const CodeText& text, std::span<const Way> ways,
                                                const Window& window, const DB& db,
                                                llama::LlamaEngine* engine);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_E2E_TRUNCATION_CODES_H_
