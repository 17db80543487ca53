// The texts of single tokens, as answers have them.
//
// Threads: stateless.
#ifndef ATTNDB_SERVER_OPENAI_TOKEN_PIECES_H_
#define ATTNDB_SERVER_OPENAI_TOKEN_PIECES_H_

#include <span>
#include <string>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "server/json.h"

namespace attndb::server {

// The bytes of a token, which may be a part of a character; a control token's are its name.
// Errors: as LlamaEngine::Detokenize.
Result<std::string> PieceOf(const llama::LlamaEngine& engine, TokenId token);

// [{"id": ID, "piece": PIECE}], as llama.cpp's server has it: bytes that are no UTF-8 are an array
// of numbers. Errors: as PieceOf.
Result<Json> PiecesJson(const llama::LlamaEngine& engine, std::span<const TokenId> tokens);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_TOKEN_PIECES_H_
