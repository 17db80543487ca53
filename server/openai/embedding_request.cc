#include "server/openai/embedding_request.h"

#include <utility>

namespace attndb::server {
namespace {

constexpr uint64_t kDimensionsMax = uint64_t{1} << 20;

Status AddText(const Json& text, const std::string& name, EmbeddingRequest* request) {
  if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
    return WrongValue(name, "a text that is not empty", text);
  }
  request->texts.push_back(text.get<std::string>());
  return Status::Ok();
}

Status AddIds(const Json& ids, const std::string& name, EmbeddingRequest* request) {
  if (!ids.is_array() || ids.empty()) return WrongValue(name, "ids of tokens", ids);
  std::vector<TokenId> tokens(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!ReadTokenId(ids[i], &tokens[i])) return WrongValue(name, "ids of tokens", ids[i]);
  }
  request->tokens.push_back(std::move(tokens));
  return Status::Ok();
}

// The first entry of a list says what the others are.
Status ReadInputs(const Json& input, EmbeddingRequest* request) {
  if (input.is_string()) return AddText(input, "input", request);
  if (!input.is_array() || input.empty()) {
    return WrongValue("input", "a text, ids of tokens, or a list of either", input);
  }
  const Json& first = input.front();
  if (!first.is_string() && !first.is_array()) return AddIds(input, "input", request);
  if (input.size() > kMaxEmbeddingInputs) {
    return Status::InvalidArgument("'input' has " + std::to_string(input.size()) +
                                   " entries, at most " + std::to_string(kMaxEmbeddingInputs) +
                                   " are taken");
  }
  for (size_t i = 0; i < input.size(); ++i) {
    const std::string name = "input[" + std::to_string(i) + "]";
    ATTNDB_RETURN_IF_ERROR(first.is_string() ? AddText(input[i], name, request)
                                             : AddIds(input[i], name, request));
  }
  return Status::Ok();
}

}  // namespace

Result<EmbeddingRequest> ParseEmbedding(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  std::string model;  // Any: many clients send another name to a server of one model.
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "model", &model));
  EmbeddingRequest request;
  std::string format = "float";
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "encoding_format", &format));
  if (format != "float" && format != "base64") {
    return WrongValue("encoding_format", "float or base64", format);
  }
  request.base64 = format == "base64";
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "dimensions", 1, kDimensionsMax, &request.dimensions));
  const Json* const input = FindMember(body, "input");
  ATTNDB_RETURN_IF_ERROR(ReadInputs(input == nullptr ? Json() : *input, &request));
  return request;
}

}  // namespace attndb::server
