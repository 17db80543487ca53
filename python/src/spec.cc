#include "python/src/spec.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "python/src/status_error.h"

namespace attndb::python {
namespace {

namespace nb = nanobind;

[[noreturn]] void Refuse(const char* field, const char* expected, nb::handle found) {
  throw StatusError(Status::InvalidArgument(std::string("spec: ") + field + ": expected " +
                                            expected + ", found " +
                                            nb::cast<std::string>(nb::repr(found))));
}

// Reads a field of `owner`. Returns `none` for None.
uint32_t Count(nb::handle owner, const char* field, uint32_t none = 0) {
  const nb::object value = owner.attr(field);
  if (value.is_none()) return none;
  int64_t count = -1;
  if (!nb::try_cast<int64_t>(value, count) || count < 0 ||
      count > std::numeric_limits<uint32_t>::max()) {
    Refuse(field, "a count below 2^32", value);
  }
  return static_cast<uint32_t>(count);
}

double Number(nb::handle owner, const char* field) {
  const nb::object value = owner.attr(field);
  if (value.is_none()) return 0;
  double number = 0;
  if (!nb::try_cast<double>(value, number)) Refuse(field, "a number", value);
  return number;
}

std::string Text(nb::handle owner, const char* field) {
  const nb::object value = owner.attr(field);
  if (value.is_none()) return {};
  std::string text;
  if (!nb::try_cast<std::string>(value, text)) Refuse(field, "a str", value);
  return text;
}

std::vector<float> Numbers(nb::handle owner, const char* field) {
  const nb::object values = owner.attr(field);
  std::vector<float> numbers;
  if (values.is_none()) return numbers;
  if (!nb::isinstance<nb::iterable>(values)) Refuse(field, "a sequence of numbers", values);
  for (const nb::handle value : nb::iter(values)) {
    double number = 0;
    if (!nb::try_cast<double>(value, number)) Refuse(field, "a sequence of numbers", value);
    numbers.push_back(static_cast<float>(number));
  }
  return numbers;
}

Rope ToRope(nb::handle rope) {
  if (rope.is_none()) return {};
  const std::string layout = Text(rope, "layout");
  if (layout != "half" && layout != "interleaved") {
    Refuse("rope.layout", "'half' or 'interleaved'", rope.attr("layout"));
  }
  return {.layout = layout == "half" ? RopeLayout::kHalf : RopeLayout::kInterleaved,
          .rope_dims = Count(rope, "rope_dims"),
          .base = Number(rope, "base"),
          .scaling = Text(rope, "scaling")};
}

LayerSpec ToLayer(nb::handle layer) {
  const uint32_t head_dim = Count(layer, "head_dim");
  return {.num_q_heads = Count(layer, "num_q_heads"),
          .num_kv_heads = Count(layer, "num_kv_heads"),
          .head_dim = head_dim,
          .v_head_dim = Count(layer, "v_head_dim", head_dim),
          .scale = static_cast<float>(Number(layer, "scale")),
          .soft_cap = static_cast<float>(Number(layer, "soft_cap")),
          .sliding_window = Count(layer, "sliding_window"),
          .rope = ToRope(layer.attr("rope")),
          .denominator_logits = Numbers(layer, "denominator_logits")};
}

nb::object NoneIfZero(double value) { return value == 0 ? nb::none() : nb::cast(value); }

nb::object FromRope(const Rope& rope, nb::handle module) {
  if (rope.layout == RopeLayout::kNone) return nb::none();
  const nb::object scaling = rope.scaling.empty() ? nb::none() : nb::cast(rope.scaling);
  return module.attr("Rope")(rope.base, rope.layout == RopeLayout::kHalf ? "half" : "interleaved",
                             scaling, rope.rope_dims);
}

nb::object FromNumbers(const std::vector<float>& values) {
  if (values.empty()) return nb::none();
  nb::list numbers;
  for (const float value : values) numbers.append(static_cast<double>(value));
  return nb::tuple(numbers);
}

nb::object FromLayer(const LayerSpec& layer, nb::handle module) {
  const nb::object window = layer.sliding_window == 0 ? nb::none() : nb::cast(layer.sliding_window);
  return module.attr("LayerSpec")(
      layer.num_q_heads, layer.num_kv_heads, layer.head_dim, layer.v_head_dim,
      NoneIfZero(static_cast<double>(layer.scale)), NoneIfZero(static_cast<double>(layer.soft_cap)),
      window, FromRope(layer.rope, module), FromNumbers(layer.denominator_logits));
}

}  // namespace

DType DTypeFromPython(nb::handle name) {
  std::string text;
  if (nb::try_cast<std::string>(name, text)) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      if (text == DTypeName(dtype)) return dtype;
    }
  }
  Refuse("kv_dtype", "'float32', 'float16' or 'bfloat16'", name);
}

ModelSpec SpecFromPython(nb::handle spec) {
  const nb::object module = nb::module_::import_("attndb._spec");
  if (!nb::isinstance(spec, module.attr("ModelSpec"))) Refuse("spec", "a ModelSpec", spec);
  ModelSpec result;
  for (const nb::handle layer : nb::iter(spec.attr("layers"))) {
    if (!nb::isinstance(layer, module.attr("LayerSpec"))) Refuse("layers", "a LayerSpec", layer);
    result.layers.push_back(ToLayer(layer));
  }
  result.kv_dtype = DTypeFromPython(spec.attr("kv_dtype"));
  nb::bytes fingerprint("", 0);
  if (!nb::try_cast<nb::bytes>(spec.attr("fingerprint"), fingerprint)) {
    Refuse("fingerprint", "bytes", spec.attr("fingerprint"));
  }
  if (!nb::try_cast<bool>(spec.attr("unrotated_keys"), result.unrotated_keys)) {
    Refuse("unrotated_keys", "True or False", spec.attr("unrotated_keys"));
  }
  result.fingerprint = std::string(fingerprint.c_str(), fingerprint.size());
  for (const auto& [field, text] :
       {std::pair("name", &result.source.name), std::pair("path", &result.source.path)}) {
    if (!nb::try_cast<std::string>(spec.attr(field), *text)) {
      Refuse(field, "a str", spec.attr(field));
    }
  }
  return result;
}

nb::object SpecToPython(const ModelSpec& spec) {
  const nb::object module = nb::module_::import_("attndb._spec");
  nb::list layers;
  for (const LayerSpec& layer : spec.layers) layers.append(FromLayer(layer, module));
  return module.attr("ModelSpec")(nb::tuple(layers), DTypeName(spec.kv_dtype),
                                  nb::bytes(spec.fingerprint.data(), spec.fingerprint.size()),
                                  spec.unrotated_keys, spec.source.name, spec.source.path);
}

}  // namespace attndb::python
