#include "engines/llama/vocab_test_util.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "engines/llama/llama_log.h"
#include "engines/llama/model_file.h"

namespace attndb::llama {
namespace {

constexpr char kTokens[] = "tokenizer.ggml.tokens";
constexpr size_t kNumControl = 17;

using GgufPtr = std::unique_ptr<gguf_context, decltype(&gguf_free)>;

// Writes spaces as SentencePiece does; each token has a score, the first ones the highest.
void SetWords(std::vector<std::string> tokens, std::vector<int32_t> types, gguf_context* file) {
  std::vector<float> scores;
  std::set<std::string> seen;
  for (std::string& token : tokens) {
    for (size_t at = 0; (at = token.find("Ġ", at)) != std::string::npos;) {
      token.replace(at, 2, "▁");
    }
    while (!seen.insert(token).second) token += "#";
    scores.push_back(-static_cast<float>(scores.size()));
  }
  types.resize(tokens.size(), LLAMA_TOKEN_TYPE_NORMAL);
  SetTexts(file, kTokens, tokens);
  gguf_set_arr_data(file, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), scores.size());
  gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
}

std::vector<int32_t> ControlTypes() {
  return std::vector<int32_t>(kNumControl, LLAMA_TOKEN_TYPE_CONTROL);
}

}  // namespace

size_t Below(size_t n, std::mt19937_64* random) { return (*random)() % n; }

std::string RandomText(std::mt19937_64* random, size_t num_bytes) {
  static const std::vector<std::string> kParts = {
      "the",  "Storm",   "don't", "we'LL", "a",    "I",          "x1",     "42",  "2024", "1234567",
      "3.14", "...",     "--",    "!?",    "(",    ")",          "\"",     "'",   "://",  "{}",
      ";",    "ябл",     "Груша", "文書",  "かな", "カナ",       "한국",   "ספר", "كتاب", "😀",
      "é",    "e\u0301", "naïve", "_",     "\t",   "<|im_end|>", "<0x0A>", "▁",   "Ġ"};
  static const std::vector<std::string> kGaps = {" ",   " ",    " ",      " ",     "\n", "\n\n",
                                                 "  ",  "    ", "\r\n",   "",      "",   "\t",
                                                 " \n", "\n ",  "\u00a0", "\u3000"};
  std::string text;
  while (text.size() < num_bytes) {
    text += kParts[Below(kParts.size(), random)];
    text += kGaps[Below(kGaps.size(), random)];
  }
  return text;
}

std::vector<std::string> TextsOf(const gguf_context* file, const char* key) {
  const int64_t id = gguf_find_key(file, key);
  std::vector<std::string> texts;
  for (size_t i = 0; i < gguf_get_arr_n(file, id); ++i) {
    texts.emplace_back(gguf_get_arr_str(file, id, i));
  }
  return texts;
}

void SetTexts(gguf_context* file, const char* key, const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  gguf_set_arr_str(file, key, pointers.data(), pointers.size());
}

void SetPreTokenizer(const char* pre, gguf_context* file) {
  gguf_set_val_str(file, "tokenizer.ggml.pre", pre);
}

void MakeSentencePiece(bool adds_space, bool has_control, gguf_context* file) {
  std::vector<std::string> tokens = TextsOf(file, kTokens);
  std::vector<int32_t> types;
  if (has_control) types = ControlTypes();
  types.resize(tokens.size() - 256, LLAMA_TOKEN_TYPE_NORMAL);
  types.resize(tokens.size(), LLAMA_TOKEN_TYPE_BYTE);
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    tokens[tokens.size() - 256 + byte] =
        std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">";
  }
  SetWords(std::move(tokens), std::move(types), file);
  gguf_set_val_str(file, "tokenizer.ggml.model", "llama");
  gguf_set_val_bool(file, "tokenizer.ggml.add_space_prefix", adds_space);
  gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", adds_space);
}

void MakeWordPiece(gguf_context* file) {
  SetWords(TextsOf(file, kTokens), ControlTypes(), file);
  gguf_set_val_str(file, "tokenizer.ggml.model", "bert");
  gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", true);
  gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", 3);
  gguf_set_val_u32(file, "tokenizer.ggml.seperator_token_id", 4);
}

void MakeUnigram(gguf_context* file) {
  std::vector<int32_t> types = ControlTypes();
  types[0] = LLAMA_TOKEN_TYPE_UNKNOWN;
  SetWords(TextsOf(file, kTokens), std::move(types), file);
  gguf_set_val_str(file, "tokenizer.ggml.model", "t5");
  gguf_set_val_bool(file, "tokenizer.ggml.add_space_prefix", true);
  gguf_set_val_bool(file, "tokenizer.ggml.remove_extra_whitespaces", true);
  gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", false);
}

void StripRight(gguf_context* file) {
  std::vector<std::string> tokens = TextsOf(file, kTokens);
  tokens[5] = "<s>";
  tokens[6] = "</s>";
  tokens[7] = "<unk>";
  SetTexts(file, kTokens, tokens);
  gguf_set_val_str(file, "general.name", "Phi-3");  // llama.cpp goes by the name.
}

void StripLeft(gguf_context* file) {
  std::vector<std::string> tokens = TextsOf(file, kTokens);
  tokens[5] = "<mask>";
  SetTexts(file, kTokens, tokens);
  SetPreTokenizer("jina-v2-code", file);
}

VocabMaker::VocabMaker() : source_(nullptr, gguf_free) {
  BeginLog();
  const std::string path = *ResolveModel("smollm2");
  source_.reset(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
}

ModelPtr VocabMaker::Load(const std::function<void(gguf_context*)>& change) const {
  const GgufPtr file(gguf_init_empty(), gguf_free);
  gguf_set_kv(file.get(), source_.get());
  change(file.get());
  const std::string path = dir_.File("vocab.gguf");
  gguf_write_to_file(file.get(), path.c_str(), /*only_meta=*/true);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  return {llama_model_load_from_file(path.c_str(), params), llama_model_free};
}

}  // namespace attndb::llama
