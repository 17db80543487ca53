#include "api/kv_file/layer_spec_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "attndb/units.h"
#include "common/json.h"
#include "common/json_text.h"
#include "common/quote.h"

namespace attndb::internal {
namespace {

constexpr uint64_t kMaxLayers = 1024;  // The limit of ModelSpec::Validate.
constexpr std::string_view kLayoutNames[] = {"none", "half", "interleaved"};

// Parses without exceptions, and refuses repeated keys and deep nesting, which a tree would hide.
Result<Json> ParseTree(std::string_view text) {
  constexpr int kMaxDepth = 4;
  std::vector<std::set<std::string>> keys;  // Keys of the objects that are open.
  std::string problem;
  const auto callback = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second && problem.empty()) {
      problem = "has the field " + Quoted(parsed.get<std::string>()) + " twice";
    }
    if (depth > kMaxDepth) problem = "is nested too deeply";
    return true;
  };
  Json json = ParseJson(text, callback);
  if (json.is_discarded()) problem = "is no valid JSON";
  if (!problem.empty()) return Status::InvalidArgument("layers " + problem);
  return json;
}

// Reads the fields of one layer's object, and keeps the first error.
class LayerFields {
 public:
  LayerFields(const Json& object, size_t layer) : object_(object), layer_(layer) {}

  void Count(const char* name, bool required, uint32_t* value) {
    const Json* const field = Find(name, required);
    if (field == nullptr) return;
    if (field->is_number_unsigned() &&
        field->get<uint64_t>() <= std::numeric_limits<uint32_t>::max()) {
      *value = field->get<uint32_t>();
    } else {
      Refuse(name, *field, "a whole number from 0 to 2^32 - 1");
    }
  }

  template <typename Real>
  void Number(const char* name, bool required, Real* value) {
    const Json* const field = Find(name, required);
    if (field == nullptr) return;
    const double number = field->is_number() ? field->get<double>() : 0.0;
    if (field->is_number() && std::abs(number) <= double{std::numeric_limits<Real>::max()}) {
      *value = static_cast<Real>(number);
    } else {
      Refuse(name, *field, "a number within the range of its type");
    }
  }

  void Text(const char* name, bool required, std::string* value) {
    const Json* const field = Find(name, required);
    if (field == nullptr) return;
    if (field->is_string()) {
      *value = field->get<std::string>();
    } else {
      Refuse(name, *field, "a text");
    }
  }

  // None is a list that is left out: how many there must be is the spec's to check.
  void Numbers(const char* name, std::vector<float>* values) {
    const Json* const field = Find(name, /*required=*/false);
    if (field == nullptr) return;
    const auto fits = [](const Json& value) {
      return value.is_number() &&
             std::abs(value.get<double>()) <= double{std::numeric_limits<float>::max()};
    };
    if (!field->is_array() || !std::ranges::all_of(*field, fits)) {
      Refuse(name, *field, "a list of numbers within the range of float32");
      return;
    }
    for (const Json& value : *field) values->push_back(static_cast<float>(value.get<double>()));
  }

  void Layout(const char* name, RopeLayout* layout) {
    std::string text = "none";
    Text(name, /*required=*/true, &text);
    const auto* const at = std::find(std::begin(kLayoutNames), std::end(kLayoutNames), text);
    if (at == std::end(kLayoutNames)) {
      Refuse(name, text, "\"none\", \"half\" or \"interleaved\"");
    } else {
      *layout = static_cast<RopeLayout>(at - std::begin(kLayoutNames));
    }
  }

  // After all fields: none may be left over.
  Status Finish() {
    for (const auto& [name, value] : object_.items()) {
      if (status_.ok() && !known_.contains(name)) Fail("has the unknown field " + Quoted(name));
    }
    return status_;
  }

 private:
  const Json* Find(const char* name, bool required) {
    known_.insert(name);
    const auto at = object_.find(name);
    if (at != object_.end()) return &*at;
    if (required) Fail(std::string("has no ") + name);
    return nullptr;
  }
  void Refuse(const char* name, const Json& found, const std::string& expected) {
    Fail(std::string("has ") + name + " " + Quoted(DumpJson(found)) + ", expected " + expected);
  }
  void Fail(const std::string& message) {
    if (status_.ok()) {
      status_ = Status::InvalidArgument("layers: layer " + std::to_string(layer_) + " " + message);
    }
  }

  const Json& object_;
  const size_t layer_;
  std::set<std::string, std::less<>> known_;
  Status status_;
};

Result<LayerSpec> ParseLayer(const Json& object, size_t index) {
  if (!object.is_object()) {
    return Status::InvalidArgument("layers: layer " + std::to_string(index) +
                                   " is no object of fields");
  }
  LayerSpec layer;
  LayerFields fields(object, index);
  fields.Count("num_q_heads", true, &layer.num_q_heads);
  fields.Count("num_kv_heads", true, &layer.num_kv_heads);
  fields.Count("head_dim", true, &layer.head_dim);
  layer.v_head_dim = layer.head_dim;
  fields.Count("v_head_dim", false, &layer.v_head_dim);
  fields.Number("scale", false, &layer.scale);
  fields.Number("soft_cap", false, &layer.soft_cap);
  fields.Count("sliding_window", false, &layer.sliding_window);
  fields.Layout("rope_layout", &layer.rope.layout);
  // Never guessed where it matters: KV of another base is another model's.
  const bool is_rotated = layer.rope.layout != RopeLayout::kNone;
  fields.Number("rope_base", is_rotated, &layer.rope.base);
  fields.Count("rope_dims", false, &layer.rope.rope_dims);
  fields.Text("rope_scaling", false, &layer.rope.scaling);
  fields.Numbers("denominator_logits", &layer.denominator_logits);
  ATTNDB_RETURN_IF_ERROR(fields.Finish());
  return layer;
}

JsonText JsonOf(const LayerSpec& layer) {
  JsonMembers json({{"num_q_heads", layer.num_q_heads},
                    {"num_kv_heads", layer.num_kv_heads},
                    {"head_dim", layer.head_dim},
                    {"v_head_dim", layer.v_head_dim},
                    {"scale", layer.scale},
                    {"soft_cap", layer.soft_cap},
                    {"sliding_window", layer.sliding_window},
                    {"rope_layout", kLayoutNames[static_cast<size_t>(layer.rope.layout)]},
                    {"rope_dims", layer.rope.rope_dims},
                    {"rope_base", layer.rope.base},
                    {"rope_scaling", layer.rope.scaling}});
  // Omits the key if it is empty, so that such files stay the same as in older versions.
  if (!layer.denominator_logits.empty()) {
    json.Add({"denominator_logits", layer.denominator_logits});
  }
  return json.Text();
}

}  // namespace

Result<std::vector<LayerSpec>> ParseLayerSpecs(std::string_view json,
                                               std::optional<uint64_t> num_layers) {
  ATTNDB_ASSIGN_OR_RETURN(const Json tree, ParseTree(json));
  if (!tree.is_array() && !tree.is_object()) {
    return Status::InvalidArgument("layers is neither a list nor an object");
  }
  if (!tree.is_array() && !num_layers) {
    return Status::InvalidArgument("layers is one object; num_layers must say of how many layers");
  }
  const uint64_t count = tree.is_array() ? tree.size() : *num_layers;
  if (num_layers && count != *num_layers) {
    return Status::InvalidArgument("layers has " + std::to_string(count) + " entries, expected " +
                                   std::to_string(*num_layers) + ", as num_layers says");
  }
  if (count < 1 || count > kMaxLayers) {
    return Status::InvalidArgument("the model has " + Counted(count, "layer") + ", expected 1 to " +
                                   FormatCount(kMaxLayers));
  }
  std::vector<LayerSpec> layers;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0 && tree.is_object()) {
      layers.push_back(layers.front());
      continue;
    }
    ATTNDB_ASSIGN_OR_RETURN(LayerSpec layer, ParseLayer(tree.is_array() ? tree[i] : tree, i));
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::string FormatLayerSpecs(std::span<const LayerSpec> layers) {
  const bool alike = std::all_of(layers.begin(), layers.end(),
                                 [&](const LayerSpec& layer) { return layer == layers.front(); });
  if (alike) return JsonOf(layers.front()).text;
  JsonList list;
  for (const LayerSpec& layer : layers) list.Add(JsonOf(layer));
  return list.Text().text;
}

}  // namespace attndb::internal
