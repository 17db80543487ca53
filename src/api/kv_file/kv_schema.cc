#include "api/kv_file/kv_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "api/kv_file/cut_text.h"
#include "api/kv_file/kv_file_notes.h"
#include "api/kv_file/layer_spec_json.h"
#include "attndb/units.h"
#include "common/coding.h"
#include "common/hex.h"
#include "common/quote.h"
#include "store/catalog/context_notes.h"
#include "store/catalog/cut_bytes.h"

namespace attndb::internal {
namespace {

constexpr std::string_view kFormat = "attndb.kv";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kNotePrefix = "note.";
constexpr std::string_view kTextLayoutKey = "note.attndb_text_layout";
constexpr uint64_t kMaxTokens = (uint64_t{1} << 31) - 64;  // The limit of a session.
constexpr uint64_t kMaxPosition = uint64_t{1} << 40;       // The limit of SessionOptions.
constexpr size_t kMaxNotes = 64;
constexpr size_t kMaxNoteBytes = size_t{64} << 10;

// By the numbers of DType.
constexpr std::array<std::string_view, 3> kTensorTypes = {"F32", "F16", "BF16"};

Status Invalid(std::string message) { return Status::InvalidArgument(std::move(message)); }

std::optional<uint64_t> ParseWhole(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// The keys of __metadata__, each read by name; keys that are left over are refused.
class Metadata {
 public:
  explicit Metadata(const std::map<std::string, std::string>& keys) : keys_(keys) {}

  std::optional<std::string_view> Find(const std::string& key) {
    known_.insert(key);
    const auto at = keys_.find(key);
    if (at == keys_.end()) return std::nullopt;
    return at->second;
  }
  Result<std::string_view> Get(const std::string& key) {
    const std::optional<std::string_view> value = Find(key);
    if (value) return *value;
    return Invalid("__metadata__ has no " + key);
  }
  Result<uint64_t> GetNumber(const std::string& key, uint64_t max) {
    ATTNDB_ASSIGN_OR_RETURN(const std::string_view text, Get(key));
    const std::optional<uint64_t> value = ParseWhole(text);
    if (value && *value <= max) return *value;
    return Invalid(key + " is " + Quoted(text) + ", expected a whole number from 0 to " +
                   std::to_string(max));
  }
  Result<std::map<std::string, std::string>> Notes() const {
    std::map<std::string, std::string> notes;
    for (const auto& [key, value] : keys_) {
      if (known_.contains(key) || key == kTitleKey || key.starts_with(kNoteKey)) continue;
      if (!key.starts_with(kNotePrefix)) {
        return Invalid("__metadata__ has the unknown key " + Quoted(key));
      }
      notes[key.substr(kNotePrefix.size())] = value;
    }
    return notes;
  }

 private:
  const std::map<std::string, std::string>& keys_;
  std::set<std::string> known_;
};

Result<DType> ParseKvDType(std::string_view text) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    if (text == DTypeName(dtype)) return dtype;
  }
  return Invalid("kv_dtype is " + Quoted(text) + ", expected float32, float16 or bfloat16");
}

Result<std::string> ParseFingerprint(std::string_view text) {
  const std::optional<std::vector<std::byte>> bytes = HexDecode(text);
  if (!bytes || bytes->empty()) {
    return Invalid("fingerprint is " + Quoted(text) + ", expected hexadecimal digits, two a byte");
  }
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

// "0,3,5", ascending.
Result<std::vector<LayerId>> ParseLayerList(std::string_view text, uint32_t num_layers) {
  std::vector<LayerId> layers;
  std::string_view rest = text;
  for (;;) {
    const size_t comma = rest.find(',');
    const std::optional<uint64_t> layer = ParseWhole(rest.substr(0, comma));
    if (!layer || *layer >= num_layers || (!layers.empty() && *layer <= layers.back())) {
      return Invalid("captured_layers is " + Quoted(text) + ", expected ascending numbers below " +
                     std::to_string(num_layers) + " with commas between");
    }
    layers.push_back(static_cast<LayerId>(*layer));
    if (comma == std::string_view::npos) return layers;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<LayerId> AllLayers(uint32_t num_layers) {
  std::vector<LayerId> layers(num_layers);
  for (LayerId layer = 0; layer < num_layers; ++layer) layers[layer] = layer;
  return layers;
}

Result<KvFileContents> ParseMetadata(const std::map<std::string, std::string>& keys) {
  Metadata metadata(keys);
  ATTNDB_ASSIGN_OR_RETURN(const std::string_view format, metadata.Get("format"));
  if (format != kFormat) {
    return Invalid("format is " + Quoted(format) + ", expected '" + std::string(kFormat) + "'");
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::string_view version, metadata.Get("version"));
  if (version != kVersion) {
    return Status::Unsupported("version is " + Quoted(version) + ", this build reads '1'");
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::string_view rotated, metadata.Get("rope_applied"));
  if (rotated != "true") {
    return Status::Unsupported("rope_applied is " + Quoted(rotated) +
                               ", expected 'true': keys as attention uses them");
  }
  KvFileContents contents;
  ATTNDB_ASSIGN_OR_RETURN(const std::string_view kv_dtype, metadata.Get("kv_dtype"));
  ATTNDB_ASSIGN_OR_RETURN(contents.spec.kv_dtype, ParseKvDType(kv_dtype));
  if (const auto unrotated = metadata.Find("unrotated_keys")) {
    if (*unrotated != "true") {
      return Invalid("unrotated_keys is " + Quoted(*unrotated) + ", expected 'true', or none");
    }
    contents.spec.unrotated_keys = true;
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::string_view fingerprint, metadata.Get("fingerprint"));
  ATTNDB_ASSIGN_OR_RETURN(contents.spec.fingerprint, ParseFingerprint(fingerprint));
  if (metadata.Find("first_position")) {
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t position,
                            metadata.GetNumber("first_position", kMaxPosition));
    contents.first_position = static_cast<int64_t>(position);
  }
  if (const auto cuts = metadata.Find("cuts")) {
    ATTNDB_ASSIGN_OR_RETURN(contents.cuts, ParseCuts(*cuts));
  }
  std::optional<uint64_t> num_layers;
  if (metadata.Find("num_layers")) {
    ATTNDB_ASSIGN_OR_RETURN(num_layers, metadata.GetNumber("num_layers", UINT32_MAX));
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::string_view layers, metadata.Get("layers"));
  ATTNDB_ASSIGN_OR_RETURN(contents.spec.layers, ParseLayerSpecs(layers, num_layers));
  ATTNDB_RETURN_IF_ERROR(contents.spec.Validate());
  contents.layers = AllLayers(contents.spec.num_layers());
  if (const auto captured = metadata.Find("captured_layers")) {
    ATTNDB_ASSIGN_OR_RETURN(contents.layers, ParseLayerList(*captured, contents.spec.num_layers()));
  }
  if (const auto text = metadata.Find(std::string(kTextLayoutKey))) {
    // A layout that this build can't read counts as unknown, here as in the catalog: a later
    // version may have written it.
    Result<TextLayout> layout = TextLayout::Parse(*text);
    if (layout.ok()) contents.text_layout = *std::move(layout);
  }
  contents.title = TitleIn(keys);
  contents.note = NoteIn(keys);
  ATTNDB_ASSIGN_OR_RETURN(contents.notes, metadata.Notes());
  return contents;
}

std::string TensorName(LayerId layer, char array) {
  return "layers." + std::to_string(layer) + "." + array;
}

// The tensors of a header, each taken by name once.
class Tensors {
 public:
  explicit Tensors(const SafetensorsHeader& header) {
    for (const SafetensorsEntry& entry : header.tensors) entries_.emplace(entry.name, &entry);
  }

  bool Has(const std::string& name) const { return entries_.contains(name); }

  Result<SafetensorsEntry> Take(const std::string& name) {
    const auto node = entries_.extract(name);
    if (node.empty()) return Invalid("the file has no tensor '" + name + "'");
    return *node.mapped();
  }

  // [num_heads, num_rows, dim]; num_rows is 1 to max_rows and, if it is given, `num_rows`.
  Result<KvTensor> TakeKv(const std::string& name, uint32_t num_heads, uint64_t max_rows,
                          std::optional<uint64_t> num_rows, uint32_t dim) {
    ATTNDB_ASSIGN_OR_RETURN(KvTensor tensor, TakeTyped(name));
    const std::vector<uint64_t>& shape = tensor.entry.shape;
    const bool fits = shape.size() == 3 && shape[0] == num_heads && shape[1] >= 1 &&
                      shape[1] <= max_rows && (!num_rows || shape[1] == *num_rows) &&
                      shape[2] == dim;
    if (!fits) {
      const std::string rows =
          num_rows ? std::to_string(*num_rows) : "1 to " + std::to_string(max_rows);
      return Invalid("tensor '" + name + "' has shape " + ShapeText(shape) + ", expected [" +
                     std::to_string(num_heads) + ", " + rows + ", " + std::to_string(dim) + "]");
    }
    tensor.num_heads = num_heads;
    tensor.num_rows = shape[1];
    tensor.dim = dim;
    return tensor;
  }

  Status CheckNoneLeft() const {
    if (entries_.empty()) return Status::Ok();
    return Invalid("the file has the unknown tensor " + Quoted(entries_.begin()->first));
  }

 private:
  Result<KvTensor> TakeTyped(const std::string& name) {
    KvTensor tensor;
    ATTNDB_ASSIGN_OR_RETURN(tensor.entry, Take(name));
    const auto* const at = std::find(kTensorTypes.begin(), kTensorTypes.end(), tensor.entry.dtype);
    if (at == kTensorTypes.end()) {
      return Invalid("tensor '" + name + "' has dtype " + tensor.entry.dtype +
                     ", expected F32, F16 or BF16");
    }
    tensor.dtype = static_cast<DType>(at - kTensorTypes.begin());
    return tensor;
  }

  std::map<std::string, const SafetensorsEntry*> entries_;
};

Result<SafetensorsEntry> TakeTokens(Tensors* tensors) {
  ATTNDB_ASSIGN_OR_RETURN(SafetensorsEntry tokens, tensors->Take("tokens"));
  if (tokens.dtype != "I32" && tokens.dtype != "I64") {
    return Invalid("tensor 'tokens' has dtype " + tokens.dtype + ", expected I32 or I64");
  }
  if (tokens.shape.size() != 1 || tokens.shape[0] < 1 || tokens.shape[0] > kMaxTokens) {
    return Invalid("tensor 'tokens' has shape " + ShapeText(tokens.shape) + ", expected [1 to " +
                   std::to_string(kMaxTokens) + "]");
  }
  return tokens;
}

Status CheckContents(const KvFileContents& contents) {
  ATTNDB_RETURN_IF_ERROR(contents.spec.Validate());
  if (contents.tokens.empty() || contents.tokens.size() > kMaxTokens) {
    return Invalid("contents have " + Counted(contents.tokens.size(), "token") +
                   ", expected 1 to " + FormatCount(kMaxTokens));
  }
  for (size_t i = 0; i < contents.tokens.size(); ++i) {
    if (contents.tokens[i] < 0) {
      return Invalid("token " + std::to_string(i) + " has id " +
                     std::to_string(contents.tokens[i]) + ", expected 0 or more");
    }
  }
  if (contents.first_position < 0 ||
      static_cast<uint64_t>(contents.first_position) > kMaxPosition) {
    return Invalid("first_position is " + std::to_string(contents.first_position) +
                   ", expected 0 to " + std::to_string(kMaxPosition));
  }
  ATTNDB_RETURN_IF_ERROR(store::CheckCuts(contents.cuts, contents.tokens.size()));
  ATTNDB_RETURN_IF_ERROR(contents.text_layout.Validate(contents.tokens.size()));
  ATTNDB_RETURN_IF_ERROR(store::CheckTitleAndNote(contents.title, contents.note));
  if (contents.num_queries > contents.tokens.size()) {
    return Invalid("q of " + Counted(contents.num_queries, "token") + ", but there are " +
                   FormatCount(contents.tokens.size()));
  }
  if (DTypeName(contents.query_dtype) == "unknown") {
    return Invalid("query_dtype is " + std::to_string(static_cast<int>(contents.query_dtype)) +
                   ", expected float32 (0), float16 (1) or bfloat16 (2)");
  }
  if (contents.notes.size() > kMaxNotes) {
    return Invalid(std::to_string(contents.notes.size()) + " notes, expected at most " +
                   std::to_string(kMaxNotes));
  }
  for (const auto& [key, value] : contents.notes) {
    const bool is_key =
        !key.empty() && key.size() <= 64 &&
        !(std::string(kNotePrefix) + key).starts_with(kOwnNotePrefix) &&
        key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
    if (!is_key || value.size() > kMaxNoteBytes) {
      return Invalid("note " + Quoted(key) + " of " + std::to_string(value.size()) +
                     " bytes, expected a key of 1 to 64 of [a-z0-9_] and at most " +
                     std::to_string(kMaxNoteBytes) + " bytes");
    }
  }
  return Status::Ok();
}

// Appends a tensor behind those of the header.
void AddTensor(std::string name, std::string_view dtype, std::vector<uint64_t> shape,
               SafetensorsHeader* header) {
  uint64_t num_bytes = SafetensorsElementBytes(dtype);
  for (const uint64_t size : shape) num_bytes *= size;  // Limits of the spec: far below 2^64.
  const uint64_t begin = header->tensors.empty() ? 0 : header->tensors.back().end;
  header->tensors.push_back(
      {std::move(name), std::string(dtype), std::move(shape), begin, begin + num_bytes});
}

}  // namespace

Result<KvSchema> ParseKvSchema(const SafetensorsHeader& header) {
  KvSchema schema;
  ATTNDB_ASSIGN_OR_RETURN(schema.contents, ParseMetadata(header.metadata));
  Tensors tensors(header);
  ATTNDB_ASSIGN_OR_RETURN(schema.tokens, TakeTokens(&tensors));
  schema.num_tokens = schema.tokens.shape[0];
  ATTNDB_RETURN_IF_ERROR(store::CheckCuts(schema.contents.cuts, schema.num_tokens));
  TextLayout& layout = schema.contents.text_layout;
  if (!layout.Validate(schema.num_tokens).ok()) layout = TextLayout();
  const std::vector<LayerId>& layers = schema.contents.layers;
  const bool has_queries = tensors.Has(TensorName(layers.front(), 'q'));
  std::optional<uint64_t> num_queries;  // The same in all layers.
  for (const LayerId id : layers) {
    const LayerSpec& spec = schema.contents.spec.layers[id];
    const uint64_t n = schema.num_tokens;
    KvFileLayer layer;
    ATTNDB_ASSIGN_OR_RETURN(
        layer.k, tensors.TakeKv(TensorName(id, 'k'), spec.num_kv_heads, n, n, spec.head_dim));
    ATTNDB_ASSIGN_OR_RETURN(
        layer.v, tensors.TakeKv(TensorName(id, 'v'), spec.num_kv_heads, n, n, spec.v_head_dim));
    if (has_queries) {
      ATTNDB_ASSIGN_OR_RETURN(layer.q, tensors.TakeKv(TensorName(id, 'q'), spec.num_q_heads, n,
                                                      num_queries, spec.head_dim));
      num_queries = layer.q.num_rows;
    }
    schema.layers.push_back(std::move(layer));
  }
  ATTNDB_RETURN_IF_ERROR(tensors.CheckNoneLeft());
  schema.contents.num_queries = num_queries.value_or(0);
  schema.contents.query_dtype = schema.layers.front().q.dtype;
  return schema;
}

Result<SafetensorsHeader> FormatKvSchema(const KvFileContents& contents) {
  ATTNDB_RETURN_IF_ERROR(CheckContents(contents));
  SafetensorsHeader header;
  std::map<std::string, std::string>& metadata = header.metadata;
  metadata["format"] = kFormat;
  metadata["version"] = kVersion;
  metadata["fingerprint"] = HexEncode(BytesOf(contents.spec.fingerprint));
  metadata["kv_dtype"] = DTypeName(contents.spec.kv_dtype);
  if (contents.spec.unrotated_keys) metadata["unrotated_keys"] = "true";
  metadata["first_position"] = std::to_string(contents.first_position);
  if (!contents.cuts.empty()) metadata["cuts"] = FormatCuts(contents.cuts);
  metadata["rope_applied"] = "true";
  metadata["num_layers"] = std::to_string(contents.spec.num_layers());
  metadata["layers"] = FormatLayerSpecs(contents.spec.layers);
  if (contents.layers != AllLayers(contents.spec.num_layers())) {
    std::string& captured = metadata["captured_layers"];
    for (const LayerId layer : contents.layers) {
      captured += (captured.empty() ? "" : ",") + std::to_string(layer);
    }
  }
  const std::string text = contents.text_layout.ToString();
  if (!text.empty()) metadata[std::string(kTextLayoutKey)] = text;
  PutTitleAndNote(contents.title, contents.note, &metadata);
  for (const auto& [key, value] : contents.notes) metadata[std::string(kNotePrefix) + key] = value;
  // Text that JSON can't hold comes back changed.
  ATTNDB_ASSIGN_OR_RETURN(const KvFileContents read, ParseMetadata(metadata));
  if (read.spec.layers != contents.spec.layers || read.layers != contents.layers) {
    return Invalid("the model spec has a text that is not UTF-8");
  }
  const uint64_t num_tokens = contents.tokens.size();
  const std::string_view kv_type = kTensorTypes[static_cast<size_t>(contents.spec.kv_dtype)];
  const std::string_view q_type = kTensorTypes[static_cast<size_t>(contents.query_dtype)];
  AddTensor("tokens", "I32", {num_tokens}, &header);
  for (const LayerId id : contents.layers) {
    const LayerSpec& spec = contents.spec.layers[id];
    AddTensor(TensorName(id, 'k'), kv_type, {spec.num_kv_heads, num_tokens, spec.head_dim},
              &header);
    AddTensor(TensorName(id, 'v'), kv_type, {spec.num_kv_heads, num_tokens, spec.v_head_dim},
              &header);
    if (contents.num_queries == 0) continue;
    AddTensor(TensorName(id, 'q'), q_type, {spec.num_q_heads, contents.num_queries, spec.head_dim},
              &header);
  }
  return header;
}

}  // namespace attndb::internal
