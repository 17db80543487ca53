#include "cli/common/capture.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "attndb/db.h"
#include "attndb/kv_file.h"
#include "cli/common/json.h"
#include "cli/common/machine.h"
#include "cli/common/parse_number.h"
#include "cli/common/temp_dir.h"
#include "cli/common/units.h"
#include "engines/llama/utf8_bytes.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;

// q of the last tokens, by captured layer, as it comes by.
class QueryKeeper {
 public:
  // REQUIRES: contents.layers is filled in.
  explicit QueryKeeper(const KvFileContents& contents)
      : contents_(contents), first_token_(contents.tokens.size() - contents.num_queries) {
    for (const LayerId layer : contents.layers) {
      const LayerSpec& spec = contents.spec.layers[layer];
      rows_.emplace_back(contents.num_queries * spec.num_q_heads * spec.head_dim);
    }
  }

  void Take(LayerId layer, uint64_t first_token, const TensorView& q) {
    const std::optional<size_t> idx = IndexOf(layer);
    if (!idx) return;
    const auto num_rows = static_cast<uint64_t>(q.rows());
    const uint64_t row_elements = static_cast<uint64_t>(q.heads() * q.dim());
    for (uint64_t row = 0; row < num_rows; ++row) {
      if (first_token + row < first_token_) continue;
      TakeRow(q, static_cast<int64_t>(row),
              &rows_[*idx][(first_token + row - first_token_) * row_elements]);
    }
  }

  // q.data is null if there are none.
  TensorView View(LayerId layer) const {
    if (contents_.num_queries == 0) return {};
    const LayerSpec& spec = contents_.spec.layers[layer];
    return TensorView::Contiguous(rows_[*IndexOf(layer)].data(), DType::kFloat32,
                                  static_cast<int64_t>(contents_.num_queries), spec.num_q_heads,
                                  spec.head_dim);
  }

 private:
  std::optional<size_t> IndexOf(LayerId layer) const {
    const std::vector<LayerId>& layers = contents_.layers;
    const auto at = std::lower_bound(layers.begin(), layers.end(), layer);
    if (at == layers.end() || *at != layer) return std::nullopt;
    return static_cast<size_t>(at - layers.begin());
  }

  // llama.cpp passes float32 with each head in a row of its own.
  static void TakeRow(const TensorView& q, int64_t row, float* to) {
    const auto* const from = static_cast<const float*>(q.data) + row * q.strides[0];
    for (int64_t head = 0; head < q.heads(); ++head) {
      for (int64_t d = 0; d < q.dim(); ++d) {
        *to++ = from[head * q.strides[1] + d * q.strides[2]];
      }
    }
  }

  const KvFileContents& contents_;
  const uint64_t first_token_;  // The first kept token.
  std::vector<std::vector<float>> rows_;
};

// Says before an hour of work that its result would not fit.
Status CheckMemory(const KvFileContents& contents) {
  const uint64_t num_tokens = contents.tokens.size();
  uint64_t query_bytes = 0;
  for (const LayerId layer : contents.layers) {
    const LayerSpec& spec = contents.spec.layers[layer];
    query_bytes += contents.num_queries * spec.num_q_heads * spec.head_dim * sizeof(float);
  }
  const uint64_t kv_bytes = num_tokens * contents.spec.KvBytesPerToken();
  const uint64_t available_bytes = ReadMemoryInfo().available_bytes;
  // A tail needs up to a fifth more than its KV.
  if (query_bytes + kv_bytes + kv_bytes / 5 <= available_bytes) return Status();
  return Status::ResourceExhausted(
      "capturing " + Counted(num_tokens, "token") + " needs " + FormatBytes(kv_bytes) +
      " for keys and values and " + FormatBytes(query_bytes) + " for queries, but " +
      FormatBytes(available_bytes) + " of memory are free; --queries and --layers keep fewer");
}

Status WriteLayers(const Session& session, const KvFileContents& contents,
                   const QueryKeeper& queries, KvFileWriter* writer) {
  const uint64_t num_tokens = contents.tokens.size();
  const auto n = static_cast<int64_t>(num_tokens);
  const DType dtype = contents.spec.kv_dtype;
  std::vector<uint32_t> k_words;  // Aligned for any element.
  std::vector<uint32_t> v_words;
  for (const LayerId layer : contents.layers) {
    const LayerSpec& spec = contents.spec.layers[layer];
    const uint64_t num_rows = num_tokens * spec.num_kv_heads;
    k_words.resize(num_rows * spec.head_dim);
    v_words.resize(num_rows * spec.v_head_dim);
    const auto k =
        MutableTensorView::Contiguous(k_words.data(), dtype, n, spec.num_kv_heads, spec.head_dim);
    const auto v =
        MutableTensorView::Contiguous(v_words.data(), dtype, n, spec.num_kv_heads, spec.v_head_dim);
    ATTNDB_RETURN_IF_ERROR(session.ReadKv(layer, {0, num_tokens}, k, v));
    ATTNDB_RETURN_IF_ERROR(writer->WriteLayer(layer, {k.data, k.dtype, k.shape, k.strides},
                                              {v.data, v.dtype, v.shape, v.strides},
                                              queries.View(layer)));
  }
  return writer->Finish();
}

// A note is UTF-8; the path of a model need not be.
std::string AsUtf8(const std::string& text) {
  return ReadOwnJson(Dump(Json(text))).get<std::string>();
}

// The contents of the future file. Errors: kInvalidArgument (no token); as CheckMemory.
Result<KvFileContents> Contents(const LlamaEngine& engine, std::span<const TokenId> tokens,
                                const CaptureOptions& options) {
  if (tokens.empty()) return Status::InvalidArgument("no token to capture");
  KvFileContents contents;
  contents.spec = engine.spec();
  contents.tokens.assign(tokens.begin(), tokens.end());
  contents.layers = options.layers;
  if (contents.layers.empty()) {
    contents.layers.resize(contents.spec.num_layers());
    std::iota(contents.layers.begin(), contents.layers.end(), 0U);
  }
  contents.num_queries = std::min<uint64_t>(options.num_queries, tokens.size());
  for (const auto& [key, value] : options.notes) contents.notes[key] = AsUtf8(value);
  ATTNDB_RETURN_IF_ERROR(CheckMemory(contents));
  return contents;
}

// Runs the tokens that `session` lacks, and writes the file.
Status RunAndWrite(LlamaEngine* engine, Session* session, const KvFileContents& contents,
                   const CaptureOptions& options, KvFileWriter* writer) {
  QueryKeeper queries(contents);
  llama::PrefillOptions prefill;
  prefill.progress = options.progress;
  if (contents.num_queries > 0) {
    prefill.on_queries = [&](LayerId layer, uint64_t first_token, const TensorView& q) {
      queries.Take(layer, first_token, q);
      return Status();
    };
  }
  const std::span<const TokenId> tokens = contents.tokens;
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(*session, tokens.subspan(session->num_tokens()), prefill));
  return WriteLayers(*session, contents, queries, writer);
}

}  // namespace

Status Capture(LlamaEngine* engine, std::span<const TokenId> tokens, const CaptureOptions& options,
               const std::string& path) {
  ATTNDB_ASSIGN_OR_RETURN(const KvFileContents contents, Contents(*engine, tokens, options));
  // Everything that can be refused is refused before the prefill.
  ATTNDB_ASSIGN_OR_RETURN(KvFileWriter writer, KvFileWriter::Create(path, contents));
  ATTNDB_ASSIGN_OR_RETURN(const TempDir dir, TempDir::Create(""));
  DBOptions db_options;
  db_options.query_sample = 0;
  db_options.host_memory_bytes = ReadMemoryInfo().available_bytes;  // CheckMemory has looked.
  db_options.dense_query_tokens = options.plan == "full" ? 0 : UINT32_MAX;
  ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(dir.path() + "/store", db_options));
  SessionOptions session_options;
  session_options.plan = options.plan;
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                          db.CreateSession(contents.spec, tokens, session_options));
  return RunAndWrite(engine, &start.session, contents, options, &writer);
}

Status Capture(LlamaEngine* engine, Session* session, std::span<const TokenId> tokens,
               const CaptureOptions& options, const std::string& path) {
  ATTNDB_ASSIGN_OR_RETURN(const KvFileContents contents, Contents(*engine, tokens, options));
  ATTNDB_ASSIGN_OR_RETURN(KvFileWriter writer, KvFileWriter::Create(path, contents));
  return RunAndWrite(engine, session, contents, options, &writer);
}

Result<std::vector<TokenId>> ParseTokenIds(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n,";
  std::vector<TokenId> tokens;
  for (;;) {
    const size_t begin = text.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) return tokens;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kBetween));
    const std::optional<TokenId> token = ParseNumber<TokenId>(word);
    if (!token || *token < 0) {
      return Status::InvalidArgument("token " + std::to_string(tokens.size()) + " is '" +
                                     std::string(llama::FirstUtf8Bytes(word, 40)) +
                                     "', expected a number of 0 or more");
    }
    tokens.push_back(*token);
    text.remove_prefix(word.size());
  }
}

}  // namespace attndb::cli
