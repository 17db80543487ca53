// What the adapter's tests share: tiny models, token ids, logits of both sides.
//
// Threads: one thread.
#ifndef ATTNDB_ENGINES_LLAMA_ENGINE_TEST_UTIL_H_
#define ATTNDB_ENGINES_LLAMA_ENGINE_TEST_UTIL_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/result.h"
#include "attndb/session.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

using LogitRows = std::vector<std::vector<float>>;

// SmolLM2's template writes this in front of a chat without a system message.
inline constexpr char kSmolSystem[] =
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n";

// SmolLM2's marks without that message: with it the model's answers are longer and worse.
inline constexpr char kChatMl[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Path of a model that scripts/make_tiny_model.py made.
std::string TinyModel(const std::string& kind);

// Writes the tiny model of `kind` to `path`, with these keys of its architecture set.
void WriteTinyModel(const std::string& kind,
                    const std::vector<std::pair<std::string, uint32_t>>& keys,
                    const std::string& path);

// Writes the tiny model "llama_bpe" to `path`, with this chat template of its own.
void WriteModelWithTemplate(const std::string& chat_template, const std::string& path);

// The folder that scripts/make_arch_models.py fills; a test's fixture runs it.
std::string ArchModels();

// The text for prompts: about 0.7 MB of English.
std::string TestText();

// An engine on a tiny model: float32 KV, ubatches of 64. One thread, or two under ThreadSanitizer:
// ggml's threads spin at barriers, which costs a time slice each where other programs keep the
// cores busy.
EngineOptions TinyOptions(HookVariant variant);

// `count` ids below `vocab_size`, the same for the same seed.
std::vector<TokenId> RandomIds(size_t count, uint64_t seed, uint32_t vocab_size);

// Logits after every token. PlainRows: by plain llama.cpp without flash attention, which is exact
// in float32 (its flash attention rounds to float16). EngineRows: by the engine with `session`.
Result<LogitRows> PlainRows(const LlamaEngine& engine, std::span<const TokenId> tokens);
Result<LogitRows> EngineRows(LlamaEngine& engine, Session& session,
                             std::span<const TokenId> tokens);

// RowDifference: the largest |difference| of two rows. LargestDifference: that of a[i] and b[first
// + i], over all rows of `a`.
double RowDifference(std::span<const float> a, std::span<const float> b);
double LargestDifference(const LogitRows& a, const LogitRows& b, size_t first = 0);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_ENGINE_TEST_UTIL_H_
