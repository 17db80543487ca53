// A llama.cpp model whose KV cache and attention live in attndb sessions.
//
//   auto engine = LlamaEngine::Open("smollm2");
//   auto start = db.CreateSession(engine->spec(), prompt_ids);
//   auto answer = engine->Generate(start->session, start->rest, {.max_tokens = 64});
//   db.Store(start->session, ids_of_all_tokens_held);
//
// llama.cpp is not modified: its graph is read by structure, and the nodes that store K and V and
// that attend are replaced by calls of Session::Append and Session::AttendPart on llama.cpp's own
// threads. Its own KV cache holds at most the tokens of one ubatch, for the time of one call.
//
// Errors:  kUnsupported: the model's graph has a feature that attndb can't honour (named), found at
//          Open, before the first token. A pass that fails in the middle crops its sessions back to
//          the tokens they had before it; they can go on.
// Sessions begin at position 0 (SessionOptions::first_position), where llama.cpp's RoPE does; new
// tokens stand at Session::next_position(), behind the longest of several contexts.
// Cost:    Open reads the weights and runs a few tokens; the first time a model is opened its files
//          are hashed (0.1 s for 100 MB). Prefill and Decode cost the model's forward, on
//          num_threads threads, and what Session::Append and Attend cost; no call waits for a
//          Store, a merge or a build, but where a plan says await=1.
// Threads: one thread at a time, but for what reads texts and ids alone, which any thread may call
//          at any time: spec, info, options, Tokenize, Detokenize, ReplyText, ApplyTemplate,
//          CheckChatTemplate, ChatTemplateCaps, Join,
//          Follow, LeftOut, the prompts, PrepareReply, BeginReply, CheckGrammar,
//          IsEndOfGeneration, EmbedderBytes. OpenEmbedder may be called beside all of these, by one
//          thread at a time. The sessions of a call are used by llama.cpp's threads inside it.
// Units:   times in milliseconds; logits in nats, unscaled by temperature.
#ifndef ATTNDB_ENGINES_LLAMA_LLAMA_ENGINE_H_
#define ATTNDB_ENGINES_LLAMA_LLAMA_ENGINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/dtype.h"
#include "attndb/result.h"
#include "attndb/session.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"
#include "engines/llama/chat_prompt.h"

namespace attndb::llama {

class Embedder;
class PlainContext;
class Reply;

// How the model's attention is replaced.
enum class HookVariant : uint8_t {
  kRewrite,  // Nodes become custom ops: no graph break, ggml's threads. CPU. The fast way.
  kObserve,  // K and V are read and the attention's output overwritten between nodes. Portable.
};

// A LoRA adapter; part of the model's identity.
struct AdapterFile {
  std::string path;
  float scale = 1.0f;
};

// RoPE stretched to reach lengths beyond those that the model was trained for. Part of the
// identity: contexts of another scaling are another model's.
enum class RopeScalingKind : uint8_t {
  kModel,   // As the model file says.
  kLinear,  // Positions divided by the factor.
  kYarn,    // YaRN (Peng et al. 2023, arXiv:2309.00071), with llama.cpp's parameters.
};
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kModel;
  float factor = 1.0f;  // 1 to 1024; ignored with kModel.
};

struct EngineOptions {
  // Threads of a pass. 0 = as many as the machine gives cores to, of those that the process may
  // use: thread_choice.h. Sums are taken in parts, so that the last bits follow the number of
  // threads: who wants them equal from run to run gives one.
  uint32_t num_threads = 0;
  DType kv_dtype = DType::kFloat16;  // Element type of the K and V that attndb stores.
  bool unrotated_keys = false;       // ModelSpec::unrotated_keys.
  uint32_t ubatch_tokens = 512;      // Tokens that one pass through the model takes.
  uint32_t max_sessions = 16;        // Sessions in one DecodeBatch; 64 at most.
  HookVariant variant = HookVariant::kRewrite;
  // The weights are mapped from the model's file: it loads at once and shares memory with others
  // that map it. One that is written to meanwhile fails all passes from then on (kIoError), and one
  // that is cut short ends the process (SIGBUS). False: they are copied, and the file may change.
  bool map_weights = true;
  // Whether passes of single tokens wait for what a plan with await=1 reads, minutes where it has
  // to be built. False: what is not there yet is read exactly. For servers, whose sessions would
  // all wait for one's.
  bool awaits_derived = true;
  std::vector<AdapterFile> adapters;
  RopeScaling rope_scaling;
  // A chat template in Jinja, which replaces that of the model file. Empty: the file's own.
  std::string chat_template;
  // The time that a chat template may show, in seconds since 1970 in UTC. Null: the system's clock.
  std::function<int64_t()> clock;
  // Where the SHA-256 of model files is kept between runs; empty = $XDG_CACHE_HOME/attndb.
  std::string cache_dir;
  // Called while Open reads and hashes the model's files, which takes minutes for the largest, and
  // while a pass waits for what a plan with await=1 reads; false stops either with kCancelled. May
  // be null.
  std::function<bool()> keep_going;
};

// The control tokens of a model that fills in the middle of a text; nullopt: it has none such.
struct FimTokens {
  std::optional<TokenId> prefix;
  std::optional<TokenId> suffix;
  std::optional<TokenId> middle;
  std::optional<TokenId> repository;  // In front of a repository's name.
  std::optional<TokenId> file;        // In front of a file's name.
};

// What the model file says about itself.
struct ModelInfo {
  std::string path;
  std::string name;          // general.name; may be empty.
  std::string architecture;  // "llama", "qwen2", ...
  std::string description;   // llama.cpp's own words: "llama 135M Q4_1".
  uint64_t num_parameters = 0;
  uint64_t file_bytes = 0;
  uint32_t vocab_size = 0;
  uint32_t trained_context = 0;  // Tokens that the file says the model was trained on.
  // Tokens that the weights were trained on before any scaling of RoPE: less than trained_context
  // where the file itself stretches it.
  uint32_t unscaled_context = 0;
  // Tokens that the model, with EngineOptions::rope_scaling, is meant for: trained_context, or the
  // factor times unscaled_context. 0: the file does not say.
  uint64_t max_context = 0;
  bool has_chat_template = false;
  bool has_tokenizer = false;
  std::string chat_template;           // The one that is used; empty: none.
  std::string begin_token, end_token;  // Names of the tokens around a text; empty: none.
  FimTokens fim;
  // Channels of the embeddings that the model makes of texts; 0: it makes none.
  uint32_t embedding_size = 0;
};

// How far texts are read that may be long. They are tokenized in pieces, with the ids of one call.
struct TokenizeLimits {
  // As soon as there are more tokens than these, no more are made: who asked counts them.
  uint64_t max_tokens = UINT64_MAX;
  // Called after each piece; false stops with kCancelled. May be null.
  std::function<bool(uint64_t bytes_done, uint64_t bytes_total)> progress;
  // A piece has so many bytes at least; it ends at the next place where a text can be cut. Short
  // texts that are joined count together.
  size_t piece_bytes = size_t{1} << 20;
};

struct PrefillProgress {
  uint64_t tokens_done = 0;
  uint64_t tokens_total = 0;
  double tokens_per_second = 0;
};

// Called with q of new tokens in one layer, as attention gets it: [n, num_q_heads, head_dim], after
// RoPE, in the spec's layout. `first_token`: index in the session of row 0. `q` is valid during the
// call. An error ends the prefill and is its answer.
using OnQueries = std::function<Status(LayerId layer, uint64_t first_token, const TensorView& q)>;

// How a session goes on that outgrows the model's window: window.h.
struct WindowOptions {
  // Tokens that a session attends to at most: ModelInfo::max_context, or fewer. 0 = no limit.
  uint64_t window_tokens = 0;
  // Tokens in front that never leave, or as many of them as are still there: a system prompt. With
  // 0 the first token stays all the same (DropOptions::sink).
  uint64_t keep_first = 4;
  // Share of the window that is left when tokens leave, keep_first included. In (0, 1).
  double keep_ratio = 0.5;

  // Errors: kInvalidArgument: the share that is left does not have room for keep_first and a token
  // behind them, or is the whole window.
  Status Validate() const;
};

// The callbacks must not run the engine: Prefill, Decode, DecodeBatch and Generate then fail with
// kFailedPrecondition.
struct PrefillOptions {
  // Called after each ubatch; false stops with kCancelled. The session keeps the tokens that are
  // done.
  std::function<bool(const PrefillProgress&)> progress;
  // Called after each ubatch but the last, with the session complete up to tokens_done of `tokens`:
  // the place to Store it, so that a killed import resumes. An error ends the prefill and is its
  // answer.
  std::function<Status(uint64_t tokens_done)> checkpoint;
  // Called with the logits after every token and its index in `tokens`. Null: only the last token's
  // logits are computed.
  std::function<void(uint64_t index, std::span<const float> logits)> on_logits;
  // Called for each ubatch and layer, in order, before its attention, on one of llama.cpp's
  // threads.
  OnQueries on_queries;
  // When the oldest tokens leave; without a limit, never. Holds for the tokens of Generate, too.
  WindowOptions window;
};

// A number that is added to the logit of a token. Minus infinity: the token is never chosen.
struct TokenBias {
  TokenId token = 0;
  float bias = 0.0f;
};

// llama.cpp's samplers, in this order: bias, penalty, top_k, top_p, min_p, temperature, draw. A
// token that the model file suppresses is never chosen.
struct SamplerOptions {
  float temperature = 0.0f;  // 0 = greedy: the largest logit after the bias and the penalty.
  int32_t top_k = 40;        // 0 = all.
  float top_p = 0.95f;
  float min_p = 0.05f;
  float repeat_penalty = 1.0f;  // 1 = none.
  // Taken off the logit of a token: for each time that it came, and once if it came; 0 = none.
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  int32_t repeat_last_n = 64;  // Tokens that the penalties look back on.
  uint32_t seed = 0;
  std::vector<TokenBias> logit_bias;  // The biases of a token that is named twice add up.
};

// How likely each token of a reply was.
struct ChanceOptions {
  uint32_t num_likeliest = 0;  // Tokens that are told beside each one of the reply.
  // False: log-probabilities of the model itself, whatever the sampler's options. True:
  // probabilities of the draw, after all samplers; tokens that could not be drawn are left out.
  bool after_samplers = false;
  // Only the ids of tokens are wanted: no chances are computed.
  bool ids_only = false;
};

// A token that could have come.
struct LikelyToken {
  TokenId token = 0;
  double chance = 0;      // A log-probability, or a probability: ChanceOptions::after_samplers.
  std::string text;       // Its bytes; a control token's name.
  bool is_named = false;  // The token has no bytes: `text` is its name.
};

// A token of a reply.
struct ReplyToken {
  TokenId token = 0;
  double chance = 0;  // As LikelyToken::chance.
  // Its bytes in the reply's text: none of a control token, and not those of a stop string.
  std::string text;
  std::vector<LikelyToken> likeliest;  // The likeliest first.
};

// A reply follows this: no token is chosen that would break it.
struct ReplyConstraint {
  std::string grammar;   // GBNF, whose first rule is `root`.
  bool is_lazy = false;  // The grammar is in force behind one of `triggers` alone.
  std::vector<GrammarTrigger> triggers;
  // Text in front of the reply that the grammar has, too (ReplyForm::generation_prompt).
  std::string before;
};

// How the model marks its thinking (ReplyForm), and how much of it a reply may have. A lazy grammar
// does not look at the thinking: a trigger in it is none.
struct ThinkingOptions {
  std::string start;                   // Empty: unknown. Nothing is limited then.
  std::vector<std::string> ends;       // The first one ends a thinking that is too long.
  std::string before;                  // Text in front of the reply (ReplyForm::generation_prompt).
  std::optional<uint32_t> max_tokens;  // In each thinking; nullopt: any number.
  std::string message;                 // A thinking that is too long ends with this text.
};

struct PreparedReply;  // reply.h

struct GenerateOptions {
  uint32_t max_tokens = 256;
  std::vector<std::string> stop;  // The text ends before the first of these.
  bool ignore_end = false;        // Go on after an end-of-generation token (benchmarks).
  SamplerOptions sampler;
  std::optional<ReplyConstraint> constraint;  // nullopt: a reply is any text.
  ThinkingOptions thinking;
  // Names of control tokens that are part of the reply's text (ReplyForm::shown_tokens).
  std::vector<std::string> shown_tokens;
  // Whole UTF-8 characters as they come; false stops.
  std::function<bool(std::string_view piece)> on_piece;
  // Called before on_piece with the tokens whose last bytes it shows, and at the end with those
  // that are left; not with the tokens of a stop string. Null: no chances are computed.
  std::function<void(std::vector<ReplyToken> tokens)> on_tokens;
  ChanceOptions chances;  // For on_tokens.
  PrefillOptions prefill;
  // LlamaEngine::PrepareReply made this of these options, but for the functions. Null: BeginReply
  // prepares the reply itself.
  std::shared_ptr<const PreparedReply> prepared;
};

enum class FinishReason : uint8_t {
  kEnd,  // The model's end-of-generation token.
  kMaxTokens,
  kStop,       // One of GenerateOptions::stop.
  kCancelled,  // on_piece said so.
};
std::string_view FinishReasonName(FinishReason reason);

struct Generation {
  std::vector<TokenId> tokens;  // Without the end-of-generation token.
  // How many of `tokens` the session holds: all, or all but the last, which was not run.
  uint64_t num_in_session = 0;
  std::string text;  // Without the stop string.
  FinishReason finish = FinishReason::kMaxTokens;
  uint64_t num_prefilled = 0;
  double prefill_ms = 0;
  double first_token_ms = 0;       // From the call to the first sampled token.
  double second_token_ms = 0;      // To the second, waits of await=1 included; 0 if there is none.
  double decode_ms_per_token = 0;  // Mean over the tokens after the first, these waits included.
};

// llama.cpp's own KV cache: what it could hold, and what it holds between calls.
struct EngineCacheUse {
  uint32_t num_cells = 0;  // Tokens; about ubatch_tokens, whatever the context's length.
  uint32_t num_used = 0;
};

// A text of the chat template, and the content behind it.
struct PromptPart {
  std::string markup;        // Control tokens are found in it. Empty: none.
  std::string_view content;  // Never parsed for control tokens. Not owned.
};
using PromptParts = std::vector<PromptPart>;

// Stands between a document and the question about it, inside one message.
inline constexpr std::string_view kQuestionGap = "\n\n";

struct JoinOptions {
  // Every token that is there stays. Otherwise the last ones may change, where the tokenizer makes
  // other tokens of the whole text.
  bool keeps_before = false;
  TokenizeLimits limits;  // max_tokens counts the new tokens alone.
};

// The tokens of texts behind other tokens.
struct JoinedText {
  std::vector<TokenId> tokens;  // From the first on, those that were there before among them.
  uint64_t num_kept = 0;        // Tokens in front that are those from before.
  // The tokens of each part's content; the others are the template's.
  std::vector<TokenRange> contents;
};

struct FollowOptions {
  // Every stored token that says what the prompt says stays. Otherwise the last ones may change,
  // where the tokenizer makes other tokens of the whole text.
  bool keeps_before = false;
  TokenizeLimits limits;  // max_tokens counts the new tokens alone.
  // The contents of the messages, in order; they do not overlap. May be empty.
  std::span<const ByteRange> messages;
};

// The first place at which a prompt says something else than stored tokens.
struct PromptParting {
  size_t item = 0;           // Index of the item.
  uint64_t item_byte = 0;    // Offset in the item's text; 0 if the item is a control token.
  uint64_t prompt_byte = 0;  // Offset in the prompt, counted over the texts of its items.
  uint64_t token = 0;        // Index of the stored token that says something else.
  uint64_t token_byte = 0;   // Bytes of this token's piece that the prompt has, too.
  // Index of the first message that ends at this place or behind it. The number of messages if the
  // place is behind all of them.
  size_t message = 0;
  uint64_t message_byte = 0;  // Offset in this message. 0: in front of it, or at its first byte.
};

// The tokens of a rendered prompt.
struct FollowedText {
  // `contents` are the tokens of FollowOptions::messages. `num_kept`: the prompt's first tokens
  // that are the stored ones.
  JoinedText joined;
  // nullopt: the prompt begins with all that the stored tokens say, or they say all of it.
  std::optional<PromptParting> parted;
};

// The new tokens of one session in a batch.
struct BatchEntry {
  Session* session = nullptr;
  std::span<const TokenId> tokens;
};

// A change of the number of threads, as another number took less time a pass.
struct ThreadChange {
  uint64_t pass = 0;  // Passes that had run.
  uint32_t from = 0;
  uint32_t to = 0;
  double from_seconds = 0;  // What a pass took with as many threads.
  double to_seconds = 0;
};

// Threads of the engine's passes.
struct ThreadReport {
  uint32_t most = 0;  // What was asked for, or what the process may use.
  uint32_t now = 0;
  std::vector<ThreadChange> changes;  // The last 16; none where num_threads was given.
};

// One generated token that plain llama.cpp would not have chosen.
struct TokenDifference {
  uint64_t index = 0;  // Index in `generated`.
  TokenId ours = 0;
  TokenId plain = 0;
  double logit_gap = 0;   // Plain's logit of its own choice minus that of ours.
  double own_spread = 0;  // What plain llama.cpp's own kernels change of this gap.
};

// How plain llama.cpp judges generated tokens, each after the same tokens before it.
struct CheckReport {
  uint64_t num_compared = 0;
  std::vector<TokenDifference> differences;
  // What plain llama.cpp's own choice of kernels, flash attention or not, changes of the gap
  // between the two logits that decide, its likeliest token's and ours (or the next likeliest's):
  // the largest over all positions. A gap below it is rounding. Measured only if tokens differ or
  // CheckOptions::measure_spread.
  double own_spread = 0;
  double plain_ms = 0;          // Time of the plain run with flash attention, prompt and tokens.
  double plain_prefill_ms = 0;  // Time of that run's prompt alone: the cold prefill.

  bool equal() const { return differences.empty(); }
};

struct CheckOptions {
  bool measure_spread = false;
  // Called after each batch of plain llama.cpp; false stops with kCancelled. May be null.
  std::function<bool()> keep_going;
};

// Options of a context of plain llama.cpp: no hook, its own KV cache.
struct PlainOptions {
  uint32_t num_tokens = 4096;  // Tokens that the context can hold.
  bool flash_attention = true;
  DType kv_dtype = DType::kFloat16;
  bool repeats = false;  // Whether PlainContext::Repeat will be called.
};

class LlamaEngine {
 public:
  // Loads `model`: the path of a GGUF file, or "smollm2" (see model_file.h for where it is sought).
  // Errors: kNotFound (with what to run); kInvalidArgument (not a GGUF; an option); kUnsupported
  //         (the graph has something that attndb can't honour); kIoError; kResourceExhausted;
  //         kCancelled (by keep_going).
  static Result<LlamaEngine> Open(const std::string& model, const EngineOptions& options = {});

  LlamaEngine(LlamaEngine&&) noexcept;
  LlamaEngine& operator=(LlamaEngine&&) noexcept;
  ~LlamaEngine();

  // The identity of the KV that this engine makes and reads.
  const ModelSpec& spec() const;
  const ModelInfo& info() const;
  const EngineOptions& options() const;  // With the defaults filled in.
  ThreadReport threads() const;

  // Text to ids. `add_special`: the model's begin-of-text token if it wants one; `parse_special`:
  // text like "<|im_end|>" becomes the control token (never for text that a user gave).
  // Words and runs of spaces of more than 4,095 characters are cut, and numbers of more than 1,023
  // digits, which changes their ids: text_cuts.h.
  // Memory: a few times a piece of the text, and the ids.
  // Errors: kUnsupported (the model has no tokenizer); kInvalidArgument (more than 1 GiB; such a
  //         word with `parse_special`); kResourceExhausted (memory); kCancelled (by
  //         limits.progress).
  Result<std::vector<TokenId>> Tokenize(std::string_view text, bool add_special, bool parse_special,
                                        const TokenizeLimits& limits = {}) const;
  // Ids to text: what Join made of it, without the space that some tokenizers set before a text.
  // Errors: kInvalidArgument (an id out of the vocabulary); kUnsupported.
  Result<std::string> Detokenize(std::span<const TokenId> tokens,
                                 bool render_special = false) const;

  // The text that a reply of these tokens shows: that of each, one behind the other.
  // Errors: as Detokenize.
  Result<std::string> ReplyText(std::span<const TokenId> tokens) const;

  // The GGUF's own chat template over `messages`, up to where the assistant begins.
  // Errors: kUnsupported (none, or unknown to llama.cpp).
  Result<std::string> ApplyTemplate(std::span<const ChatMessage> messages) const;

  // Sees that the chat template can be parsed. Ok: also where the model has none.
  // Errors: kInvalidArgument (llama.cpp's words, with the place); kUnsupported (llama.cpp has no
  //         form of the template, and attndb-chat is not there); kResourceExhausted; kIoError.
  Status CheckChatTemplate() const;
  // Tells what the chat template can show, by llama.cpp's names: "supports_tools" and others.
  // Errors: as CheckChatTemplate; kUnsupported also without a template, or without attndb-chat.
  Result<std::map<std::string, bool>> ChatTemplateCaps() const;
  // Whether the model's chat template can be applied. The first call starts attndb-chat.
  bool KnowsChatTemplate() const;
  // The time of a chat that begins now, for ChatOptions::now, `now` below, and
  // TextLayout::rendered_at of what is stored. 0: the template shows no time.
  int64_t ChatTime() const;

  // The prompt that the model's own template makes of a chat, up to where the assistant begins.
  // Contents are never parsed for control tokens. Without a template: the bare texts, a line each.
  // Errors: kUnsupported (the template can't be applied here); kInvalidArgument (what the template
  //         refuses, in its words); kResourceExhausted (it went beyond its limits).
  Result<RenderedPrompt> Render(std::span<const ChatMessage> messages,
                                const ChatOptions& options = {}) const;
  // Stored tokens, and parts of a template, as a prompt or the beginning of one: Follow gives them
  // the same tokens again. Errors: as Tokenize.
  Result<RenderedPrompt> RenderTokens(std::span<const TokenId> tokens) const;
  Result<RenderedPrompt> RenderParts(std::span<const PromptPart> parts) const;
  // Reads a reply, or the beginning of one: complete UTF-8, without the end-of-generation token.
  // Errors: kInvalidArgument (the text has not the form); kResourceExhausted (limits);
  //         kUnsupported.
  Result<ReadReply> ReadReplyText(const ReplyForm& form, std::string_view text,
                                  bool is_partial) const;
  // The GBNF of a JSON schema. Errors: kInvalidArgument (with the place); as Render.
  Result<std::string> GrammarOfSchema(std::string_view json_schema) const;

  // The tokens of a text that is put together of parts, behind tokens that are there: those of the
  // whole text, tokenized at once (text_join.h). Without tokens before it, it begins a text.
  // Memory: two copies of the text, and the ids. Errors: as Tokenize.
  Result<JoinedText> Join(std::span<const TokenId> before, std::span<const PromptPart> parts,
                          const JoinOptions& options = {}) const;
  // The tokens of a whole rendered prompt behind stored tokens, which stay as far as they say what
  // the prompt says: text_follow.h. Without stored tokens: those of Join. Tokens of a model's reply
  // stay, although the tokenizer would cut the same bytes otherwise.
  // Cost: the pieces of the tokens that stay are compared; only the rest is tokenized.
  // Errors: as Join; also kInvalidArgument (an item's id that is no control token, or that has no
  //         name).
  Result<FollowedText> Follow(std::span<const TokenId> before, std::span<const PromptItem> items,
                              const FollowOptions& options = {}) const;
  // The pieces of stored tokens that a prompt leaves out, where it says the others: left_out.h. The
  // others, up to the end of the last piece at least, are kept by Follow. Errors: as Follow.
  Result<std::vector<TokenRange>> LeftOut(std::span<const TokenId> before,
                                          std::span<const PromptItem> items) const;
  // The tokens that the tokenizer makes of the text of these, control tokens left as they are.
  // Errors: as Tokenize.
  Result<std::vector<TokenId>> TokenizedAtOnce(std::span<const TokenId> tokens,
                                               const TokenizeLimits& limits = {}) const;

  // These return the parts that Join takes, by the model's template. Without a template, the parts
  // are the bare texts, a line each. They refer to the texts that are given. `now`: as
  // ChatOptions::now. Errors: as ApplyTemplate.
  //   DocumentParts      up to and including `document`, inside the user's message
  //   QuestionParts      behind a document: the question, the message's end, the assistant's header
  //   NextTurnParts      behind a reply: its end, the next message, the assistant's header
  //   ConversationParts  the whole of a conversation, ending with the assistant's header; with
  //                      `first`, what comes behind the content of messages[first - 1], from that
  //                      message's end on. kInvalidArgument: no message; first is beyond them
  Result<PromptParts> DocumentParts(std::string_view system, std::string_view document,
                                    int64_t now = 0) const;
  Result<PromptParts> QuestionParts(std::string_view question, int64_t now = 0) const;
  Result<PromptParts> NextTurnParts(std::string_view message, int64_t now = 0) const;
  Result<PromptParts> ConversationParts(std::span<const ChatMessage> messages, size_t first = 0,
                                        int64_t now = 0) const;

  // Tokens of these parts that begin a text. FirstTurn: a message that ends with the assistant's
  // header.
  Result<std::vector<TokenId>> DocumentPrefix(std::string_view system, std::string_view document,
                                              const TokenizeLimits& limits = {}) const;
  Result<std::vector<TokenId>> FirstTurn(std::string_view system, std::string_view message) const;
  // With `first`, the tokens that follow messages[first - 1], tokenized separately: no token covers
  // both texts.
  Result<std::vector<TokenId>> Conversation(std::span<const ChatMessage> messages, size_t first = 0,
                                            const TokenizeLimits& limits = {}) const;
  // The tokens behind any document, and behind any reply, tokenized separately.
  Result<std::vector<TokenId>> QuestionSuffix(std::string_view question) const;
  Result<std::vector<TokenId>> NextTurn(std::string_view message) const;

  // Runs `tokens` after those that `session` holds, in ubatches. Logits(0): after the last token.
  // Nothing checks ModelInfo::max_context: beyond it the model is run at positions that it never
  // saw, and its answers fall apart. PrefillOptions::window is the way on: the oldest tokens leave
  // (Session::cuts) and stay away if the call fails later.
  // Errors: kInvalidArgument (no token; an id out of the vocabulary; a session of another spec);
  //         kIoError (EngineOptions::map_weights); kCancelled; whatever the session's Append and
  //         Attend give. The session keeps the ubatches that were done: session.num_tokens() says
  //         how many tokens it holds.
  Status Prefill(Session& session, std::span<const TokenId> tokens,
                 const PrefillOptions& options = {});
  Status Decode(Session& session, TokenId token, const WindowOptions& window = {});
  // Runs one pass for several sessions, at most max_sessions of them and ubatch_tokens in all. All
  // are cropped back if one fails. Logits(i): after the last token of entry i. Before the pass, as
  // in Decode, sessions that run a single token wait for what a plan with await=1 reads
  // (EngineOptions::awaits_derived); what can't be had is no error. Prefill never waits. Sessions
  // that outgrow a window: call MakeRoom for each of them before.
  // `statuses`, if not null, takes how each entry fared: one that fails, for memory or for its
  // disk, then ends only itself, and is cropped back alone. What the call itself returns is of the
  // batch: then all were cropped back.
  Status DecodeBatch(std::span<const BatchEntry> entries, std::vector<Status>* statuses = nullptr);

  // Logits after the last token of an entry of the last Prefill, Decode, DecodeBatch or Generate,
  // [vocab_size]. They are valid until the next of these calls, which overwrites them: read or copy
  // the logits of all entries before it.
  // Errors: kFailedPrecondition: the last call had no such entry, or the call or the entry failed.
  Result<std::span<const float>> Logits(size_t entry = 0) const;

  // Runs `rest`, then samples tokens until one of GenerateOptions's ends. The repeat penalty sees
  // `rest` and what was generated.
  // Errors: as Prefill; the session then holds what it held before the call, but for tokens that
  // the window let go before any was run.
  Result<Generation> Generate(Session& session, std::span<const TokenId> rest,
                              const GenerateOptions& options = {});

  // A reply that its caller samples, pass by pass: reply.h. Does not wait for a grammar: the reply
  // says whether llama.cpp can compile it.
  // Errors: kInvalidArgument (the sampler's options; a grammar that is empty or too long);
  //         kUnsupported (a grammar, without attndb-chat or without a tokenizer); kIoError (no
  //         process for a grammar).
  Result<std::unique_ptr<Reply>> BeginReply(const GenerateOptions& options) const;
  // Tokenizes what replies under these options need, for GenerateOptions::prepared: once for many
  // replies, on a thread that has time for it.
  std::shared_ptr<const PreparedReply> PrepareReply(const GenerateOptions& options) const;
  // Whether a reply can be held to a grammar: compiles it in a process of its own, and waits.
  // Errors: as BeginReply; also kInvalidArgument (llama.cpp can't compile it: its words, with the
  //         place; it does not take the text before the reply); kResourceExhausted (limits).
  Status CheckGrammar(const ReplyConstraint& constraint) const;

  bool IsEndOfGeneration(TokenId token) const;
  EngineCacheUse engine_cache() const;

  // A context of plain llama.cpp over the same weights. Errors: kResourceExhausted (its KV cache).
  Result<std::unique_ptr<PlainContext>> OpenPlain(const PlainOptions& options = {}) const;

  // Makes embeddings of inputs of at most `max_tokens` tokens each: embedder.h.
  // Errors: kUnsupported (the model has none); kInvalidArgument (max_tokens is 0, or more than the
  //         model is meant for); kResourceExhausted (its KV cache).
  Result<std::unique_ptr<Embedder>> OpenEmbedder(uint64_t max_tokens) const;
  // About the most memory that such an Embedder takes.
  uint64_t EmbedderBytes(uint64_t max_tokens) const;

  // Judges greedy tokens `generated` after `prompt` by plain llama.cpp on the whole prompt.
  // Errors: kInvalidArgument (an id); kResourceExhausted (its KV cache); kCancelled (by
  //         keep_going).
  Result<CheckReport> CheckAgainstPlain(std::span<const TokenId> prompt,
                                        std::span<const TokenId> generated,
                                        const CheckOptions& options = {}) const;

 private:
  class Impl;
  explicit LlamaEngine(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;  // Null only after a move.
};

// Makes room in `session` for the next of `num_new` tokens, and says for how many of them: at least
// 1. To be called before each of the engine's passes until all have run.
// Errors: as WindowOptions::Validate, Session::DropOldest and Session::Rebase.
// REQUIRES: num_new > 0.
Result<uint64_t> MakeRoom(const WindowOptions& window, uint64_t num_new, Session* session);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_LLAMA_ENGINE_H_
