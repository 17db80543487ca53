// The part of gguf_check.h about tokens.
#include <cmath>
#include <unordered_map>

#include "engines/llama/gguf_check.h"

namespace attndb::llama {
namespace {

constexpr const char* kModelKey = "tokenizer.ggml.model";
constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kScoresKey = "tokenizer.ggml.scores";
constexpr const char* kKindsKey = "tokenizer.ggml.token_type";
constexpr const char* kMergesKey = "tokenizer.ggml.merges";

// llama.cpp's begin-of-text and end-of-text where the file names none; none where that is not in
// the vocabulary. It asserts that they are there if a text is to begin or end with one.
struct DefaultEnds {
  std::string_view tokenizer;
  int64_t begin;
  int64_t end;
  bool adds_begin;
};
constexpr DefaultEnds kDefaultEnds[] = {{"llama", 1, 2, true},
                                        {"gpt2", 11, 11, false},
                                        {"gemma4", -1, -1, true},
                                        {"t5", -1, 1, false},
                                        {"plamo2", 1, 2, false}};

Status CheckTokens(const GgufFile& model, const GgufValue& tokens) {
  std::unordered_map<std::string, size_t> ids;
  const std::vector<std::string_view> texts = tokens.Strings();
  ids.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    // llama.cpp takes the text for a C string, and gives an empty one a name.
    std::string text(texts[i].substr(0, texts[i].find('\0')));
    if (text.empty()) text = "[EMPTY_" + std::to_string(i) + "]";
    const auto [other, is_new] = ids.emplace(std::move(text), i);
    if (is_new) continue;
    return DamagedGguf(model.name(), "token " + std::to_string(i) + " of " + kTokensKey,
                       "'" + QuoteBytes(texts[i]) + "', as token " + std::to_string(other->second),
                       "each token once");
  }
  return Status::Ok();
}

// An array of at least one element a token, if it is there.
Status CheckArray(const GgufFile& model, const char* key, std::span<const GgufType> types,
                  uint64_t num_tokens) {
  const GgufValue* const value = model.Find(key);
  if (value == nullptr) return Status::Ok();
  bool known = false;
  std::string names;
  for (const GgufType type : types) {
    known = known || (value->is_array && value->type == type);
    names += (names.empty() ? "" : " or ") + std::string(GgufTypeName(type));
  }
  if (!known) {
    return DamagedGguf(model.name(), key, "of type " + value->TypeName(), "array of " + names);
  }
  if (value->count >= num_tokens) return Status::Ok();
  return DamagedGguf(model.name(), key, "an array of " + std::to_string(value->count) + " elements",
                     std::to_string(num_tokens) + ", one for each token");
}

Status CheckArrays(const GgufFile& model, uint64_t num_tokens) {
  constexpr GgufType kScores[] = {GgufType::kFloat32, GgufType::kInt32};
  constexpr GgufType kKinds[] = {GgufType::kInt32};
  constexpr GgufType kMerges[] = {GgufType::kString};
  ATTNDB_RETURN_IF_ERROR(CheckArray(model, kScoresKey, kScores, num_tokens));
  ATTNDB_RETURN_IF_ERROR(CheckArray(model, kKindsKey, kKinds, num_tokens));
  return CheckArray(model, kMergesKey, kMerges, 0);
}

Status CheckType(const GgufFile& model, std::string_view key, GgufType type) {
  const GgufValue* const value = model.Find(key);
  if (value == nullptr || value->Is(type)) return Status::Ok();
  return DamagedGguf(model.name(), key, "of type " + value->TypeName(), GgufTypeName(type));
}

Status CheckScalars(const GgufFile& model) {
  for (const auto& [key, value] : model.values()) {
    if (!key.starts_with("tokenizer.ggml.")) continue;
    if (key.ends_with("_token_id")) {
      ATTNDB_RETURN_IF_ERROR(CheckType(model, key, GgufType::kUint32));
    }
    if (key.find(".add_") != std::string::npos) {
      ATTNDB_RETURN_IF_ERROR(CheckType(model, key, GgufType::kBool));
    }
  }
  ATTNDB_RETURN_IF_ERROR(CheckType(model, "tokenizer.ggml.pre", GgufType::kString));
  return CheckType(model, "tokenizer.chat_template", GgufType::kString);
}

// REQUIRES: CheckScalars.
Status CheckEnd(const GgufFile& model, const char* key, const char* add_key, bool adds,
                int64_t otherwise, int64_t num_tokens) {
  const GgufValue* const add = model.Find(add_key);
  if (add != nullptr) adds = add->Integer() != 0;
  if (!adds) return Status::Ok();
  const GgufValue* const id = model.Find(key);
  const bool otherwise_there = otherwise >= 0 && otherwise < num_tokens;
  if (id != nullptr ? id->Integer() < num_tokens || otherwise_there : otherwise_there) {
    return Status::Ok();
  }
  return DamagedGguf(model.name(), key, id == nullptr ? "missing" : std::to_string(id->Integer()),
                     "the id of one of " + std::to_string(num_tokens) +
                         " tokens, since a text is to begin or end with it");
}

Status CheckEnds(const GgufFile& model, int64_t num_tokens) {
  const std::string_view tokenizer = model.Text(kModelKey);
  for (const DefaultEnds& ends : kDefaultEnds) {
    if (ends.tokenizer != tokenizer) continue;
    ATTNDB_RETURN_IF_ERROR(CheckEnd(model, "tokenizer.ggml.bos_token_id",
                                    "tokenizer.ggml.add_bos_token", ends.adds_begin, ends.begin,
                                    num_tokens));
    ATTNDB_RETURN_IF_ERROR(CheckEnd(model, "tokenizer.ggml.eos_token_id",
                                    "tokenizer.ggml.add_eos_token", false, ends.end, num_tokens));
  }
  return Status::Ok();
}

// Without a tokenizer: ids go in, and llama.cpp makes as many tokens as the file says.
Status CheckNoVocabulary(const GgufFile& model, uint64_t num_rows) {
  const std::string key = std::string(model.Text("general.architecture")) + ".vocab_size";
  const GgufValue* const value = model.Find(key);
  if (value == nullptr || num_rows == 0) return Status::Ok();
  if (static_cast<uint64_t>(value->Integer()) == num_rows) return Status::Ok();
  return DamagedGguf(model.name(), key, std::to_string(value->Integer()),
                     std::to_string(num_rows) + ", the rows of token_embd.weight");
}

}  // namespace

Status CheckVocabulary(const GgufFile& model, uint64_t num_rows) {
  const GgufValue* const kind = model.Find(kModelKey);
  if (kind == nullptr) return DamagedGguf(model.name(), kModelKey, "missing", "a text");
  ATTNDB_RETURN_IF_ERROR(CheckType(model, kModelKey, GgufType::kString));
  const std::string_view tokenizer = model.Text(kModelKey);
  if (tokenizer == "no_vocab" || tokenizer == "none") return CheckNoVocabulary(model, num_rows);
  if (tokenizer == "rwkv") {
    return Status::Unsupported("'" + model.name() +
                               "': vocabulary of RWKV, whose models are recurrent");
  }
  const GgufValue* const tokens = model.Find(kTokensKey);
  if (tokens == nullptr) return DamagedGguf(model.name(), kTokensKey, "missing", "the tokens");
  if (!tokens->is_array || tokens->type != GgufType::kString) {
    return DamagedGguf(model.name(), kTokensKey, "of type " + tokens->TypeName(),
                       "array of string");
  }
  if (tokens->count == 0 || (num_rows != 0 && tokens->count != num_rows)) {
    return DamagedGguf(
        model.name(), kTokensKey, "an array of " + std::to_string(tokens->count) + " tokens",
        num_rows == 0 ? "one and more"
                      : std::to_string(num_rows) + ", the rows of token_embd.weight");
  }
  ATTNDB_RETURN_IF_ERROR(CheckTokens(model, *tokens));
  ATTNDB_RETURN_IF_ERROR(CheckArrays(model, tokens->count));
  ATTNDB_RETURN_IF_ERROR(CheckScalars(model));
  return CheckEnds(model, static_cast<int64_t>(tokens->count));
}

}  // namespace attndb::llama
