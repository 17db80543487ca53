#include "engines/llama/engine_test_util.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "engines/llama/gguf_file.h"
#include "engines/llama/gguf_test_util.h"
#include "engines/llama/plain_context.h"

namespace attndb::llama {

std::string TinyModel(const std::string& kind) {
  return std::string(ATTNDB_TINY_MODELS) + "/" + kind + ".gguf";
}

void WriteTinyModel(const std::string& kind,
                    const std::vector<std::pair<std::string, uint32_t>>& keys,
                    const std::string& path) {
  const Result<GgufFile> file = GgufFile::Open(TinyModel(kind));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  GgufParts parts = GgufParts::Of(*file);
  const std::string architecture = file->Text("general.architecture").value_or("");
  for (const auto& [key, value] : keys) parts.Set(architecture + "." + key, GgufUint32(value));
  std::ofstream(path, std::ios::binary) << parts.Bytes();
}

void WriteModelWithTemplate(const std::string& chat_template, const std::string& path) {
  const Result<GgufFile> file = GgufFile::Open(TinyModel("llama_bpe"));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  GgufParts parts = GgufParts::Of(*file);
  parts.Set("tokenizer.chat_template", GgufText(chat_template));
  std::ofstream(path, std::ios::binary) << parts.Bytes();
}

std::string ArchModels() { return ATTNDB_ARCH_MODELS; }

std::string TestText() {
  std::ifstream file(ATTNDB_TEST_TEXT);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

EngineOptions TinyOptions(HookVariant variant) {
  EngineOptions options;
  options.num_threads = ATTNDB_TINY_THREADS;
  options.kv_dtype = DType::kFloat32;
  options.ubatch_tokens = 64;
  options.variant = variant;
  return options;
}

std::vector<TokenId> RandomIds(size_t count, uint64_t seed, uint32_t vocab_size) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> ids(count);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % vocab_size);
  return ids;
}

Result<LogitRows> PlainRows(const LlamaEngine& engine, std::span<const TokenId> tokens) {
  ATTNDB_ASSIGN_OR_RETURN(const auto plain, engine.OpenPlain({.num_tokens = 1024,
                                                              .flash_attention = false,
                                                              .kv_dtype = DType::kFloat32}));
  LogitRows rows;
  ATTNDB_RETURN_IF_ERROR(plain->Run(tokens, [&](uint64_t, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
  }));
  return rows;
}

Result<LogitRows> EngineRows(LlamaEngine& engine, Session& session,
                             std::span<const TokenId> tokens) {
  LogitRows rows;
  PrefillOptions options;
  options.on_logits = [&](uint64_t, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
  };
  ATTNDB_RETURN_IF_ERROR(engine.Prefill(session, tokens, options));
  return rows;
}

double RowDifference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= largest)) largest = std::isnan(difference) ? HUGE_VAL : difference;
  }
  return largest;
}

double LargestDifference(const LogitRows& a, const LogitRows& b, size_t first) {
  if (a.empty() || a.size() + first > b.size()) return HUGE_VAL;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, RowDifference(a[i], b[first + i]));
  }
  return largest;
}

}  // namespace attndb::llama
