#include "server/openai/token_pieces.h"

#include <utility>

namespace attndb::server {

Result<std::string> PieceOf(const llama::LlamaEngine& engine, TokenId token) {
  Result<std::string> text = engine.ReplyText({&token, 1});
  if (!text.ok() || !text->empty()) return text;
  return engine.Detokenize({&token, 1}, /*render_special=*/true);
}

Result<Json> PiecesJson(const llama::LlamaEngine& engine, std::span<const TokenId> tokens) {
  Json pieces = Json::array();
  for (const TokenId token : tokens) {
    ATTNDB_ASSIGN_OR_RETURN(const std::string piece, PieceOf(engine, token));
    Json json = piece;
    if (!IsUtf8(piece)) {
      json = Json::array();
      for (const char byte : piece) json.push_back(static_cast<unsigned char>(byte));
    }
    pieces.push_back({{"id", token}, {"piece", std::move(json)}});
  }
  return pieces;
}

}  // namespace attndb::server
