// Identities and the description of a model that every stored byte is bound to.
//
// Threads: values; no state.
#ifndef ATTNDB_TYPES_H_
#define ATTNDB_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/dtype.h"
#include "attndb/export.h"
#include "attndb/result.h"
#include "attndb/status.h"

namespace attndb {

using TokenId = int32_t;   // An id of the model's vocabulary; >= 0.
using LayerId = uint32_t;  // 0 .. num_layers - 1.

// Stable identity of a context among its tenant's contexts: 1, 2, 3, ... in the order of storing,
// independent of other tenants. Ids are never used twice. 0 is "none".
enum class ContextId : int64_t { kNone = 0 };

// Half-open range of token indices [begin, end).
struct TokenRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

// A moment at which tokens left a session: Session::DropOldest. The K and V of later tokens depend
// on it.
struct Cut {
  uint64_t at = 0;  // Tokens that the session had received by then, dropped ones included.
  // The tokens that left then, as indices of the session's tokens: ranges in order, not adjacent,
  // not empty, below `at`.
  std::vector<TokenRange> dropped;
  friend bool operator==(const Cut&, const Cut&) = default;
};

// How a chat template sees the text of a context.
enum class TextForm : uint8_t {
  kUnknown,   // Not known.
  kRaw,       // Text alone.
  kDocument,  // The last message is the user's, and is not ended.
  kDialogue,  // The text ends inside or behind a reply.
};

enum class TextRole : uint8_t { kSystem, kUser, kAssistant, kOther };

// The tokens of a message's own words.
struct TextMessage {
  TextRole role = TextRole::kUser;
  TokenRange tokens;
  friend bool operator==(const TextMessage&, const TextMessage&) = default;
};

// Tells which tokens of a context are the words of which message; all other tokens come from the
// chat template. The engine passes the layout when it stores a context, and gets it back when it
// continues the context. Token ids alone do not tell a template's marks from words.
struct ATTNDB_EXPORT TextLayout {
  static constexpr size_t kMaxMessages = 2048;
  static constexpr size_t kMaxLeftOut = 128;

  TextForm form = TextForm::kUnknown;
  std::vector<TextMessage> messages;  // In order, none empty. kUnknown and kRaw have none.
  // The time that the chat template was applied with, in seconds since 1970 in UTC, if the template
  // may show the time; else 0. A text that continues this one is rendered with the same time.
  // kUnknown and kRaw have none.
  int64_t rendered_at = 0;
  // Pieces that the text no longer has, although the context stores their tokens. An edit removed
  // them from a session whose cuts dropped them: Session::DropOldest. Tokens that a cut dropped and
  // that are not named here are still part of the text: they fell out of a window. At most
  // kMaxLeftOut ranges, in order, not adjacent.
  std::vector<TokenRange> left_out = {};

  // "dialogue system:4-20 user:24-90 assistant:95-130"; "" = unknown. The time follows the form,
  // and then the pieces: "dialogue at:1764547200 without:30-42,60-75 user:24-90".
  std::string ToString() const;
  // Reads only texts that ToString writes. Errors: kInvalidArgument.
  static Result<TextLayout> Parse(std::string_view text);
  // Errors: kInvalidArgument (the layout does not fit a context of `num_tokens` tokens).
  Status Validate(uint64_t num_tokens) const;
  friend bool operator==(const TextLayout&, const TextLayout&) = default;
};

// How the engine lays out the two channels that one rotary angle turns.
enum class RopeLayout : uint8_t {
  kNone = 0,         // Keys are not rotated.
  kHalf = 1,         // Channels i and i + rope_dims/2 are a pair (Hugging Face, ggml NEOX).
  kInterleaved = 2,  // Channels 2i and 2i + 1 are a pair (ggml NORM, the original Llama).
};

// Rotary position embedding as it was applied to q and k before attndb sees them.
struct Rope {
  RopeLayout layout = RopeLayout::kNone;
  uint32_t rope_dims = 0;  // Leading channels that are rotated; 0 = all of head_dim. Even.
  double base = 10000.0;
  // Canonical text of the scaling with all its parameters, e.g. "linear:factor=4"; "" = none. Part
  // of the identity; attndb does not interpret it.
  std::string scaling;

  // Leading channels that are rotated, for rows of head_dim channels.
  uint32_t DimsOf(uint32_t head_dim) const { return rope_dims == 0 ? head_dim : rope_dims; }
  friend bool operator==(const Rope&, const Rope&) = default;
};

// One attention layer.
struct LayerSpec {
  uint32_t num_q_heads = 0;  // A multiple of num_kv_heads; q head h reads kv head h / group_size.
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;        // Elements of a row of q and k.
  uint32_t v_head_dim = 0;      // Elements of a row of v and of the output.
  float scale = 0.0f;           // logit = scale * (q . k); 0 = 1 / sqrt(head_dim).
  float soft_cap = 0.0f;        // logit = soft_cap * tanh(logit / soft_cap); 0 = none.
  uint32_t sliding_window = 0;  // Token i sees (i - sliding_window, i]; 0 = all tokens up to i.
  Rope rope;
  // [num_q_heads], finite; empty = none. Each adds exp(logit) to the softmax's denominator of its q
  // head, like a token of value 0 that every row sees (GPT-OSS's learned sinks, `s_aux`). They are
  // not scaled and not capped; the lse includes them.
  std::vector<float> denominator_logits;

  uint32_t group_size() const { return num_q_heads / num_kv_heads; }
  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

// The name of a model for people, and the place of its files. Both are kept with the contexts of
// the model, so that a later process finds the model again, and messages can name it. UTF-8 without
// characters that a terminal acts upon.
struct ATTNDB_EXPORT ModelSource {
  std::string name;  // For example "SmolLM2 135M Instruct"; at most 256 bytes; "" = not known.
  std::string path;  // The place of its first file, absolute; at most 4096 bytes; "" = not known.

  // "'SmolLM2 135M Instruct' (/models/smollm2.gguf)", or the known part of it; "" = nothing.
  std::string ToString() const;
  // Errors: kInvalidArgument naming the field.
  Status Validate() const;
  friend bool operator==(const ModelSource&, const ModelSource&) = default;
};

// The identity of KV data: keys and values made under one spec are never used under another.
//
// Stored keys have RoPE layout kHalf. If a layer says kInterleaved, attndb permutes q and k at its
// interface, so that two engines with the same fingerprint can exchange contexts.
struct ATTNDB_EXPORT ModelSpec {
  std::vector<LayerSpec> layers;
  DType kv_dtype = DType::kFloat16;  // Element type of stored K and V.
  // Identity of weights, adapters and tokenizer: any bytes, 1 to 256 of them (a SHA-256, say).
  std::string fingerprint;
  // Keys are stored as they were before RoPE and rotated to their positions at each read, as in
  // [AS] 3.4. Engines and callers see rotated keys as always. This option is for comparison: it
  // costs a rotation of each key in each call (figures: docs/truncation.md), and tokens can leave a
  // session without it. Scalings whose angles depend on the length, or are unknown, are refused.
  bool unrotated_keys = false;
  ModelSource source;  // Not part of the identity.

  // A model with equal layers.
  static ModelSpec Uniform(uint32_t num_layers, const LayerSpec& layer, DType kv_dtype,
                           std::string fingerprint);

  uint32_t num_layers() const { return static_cast<uint32_t>(layers.size()); }

  // Bytes of K and V of one token over all layers, without padding.
  uint64_t KvBytesPerToken() const;

  // Errors: kInvalidArgument naming the layer and the field that is out of its limits.
  Status Validate() const;
};

}  // namespace attndb

#endif  // ATTNDB_TYPES_H_
