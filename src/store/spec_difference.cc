#include "store/spec_difference.h"

#include <sstream>
#include <vector>

#include "attndb/fingerprint.h"
#include "common/quote.h"

namespace attndb::store {
namespace {

// "num_kv_heads 2, expected 4": the first field in which two layers differ; empty if in none.
std::string LayerDifference(const LayerSpec& found, const LayerSpec& expected) {
  std::ostringstream text;
  const auto compare = [&text](const char* name, const auto& a, const auto& b) {
    if (a != b && text.view().empty()) text << name << ' ' << a << ", expected " << b;
  };
  compare("num_q_heads", found.num_q_heads, expected.num_q_heads);
  compare("num_kv_heads", found.num_kv_heads, expected.num_kv_heads);
  compare("head_dim", found.head_dim, expected.head_dim);
  compare("v_head_dim", found.v_head_dim, expected.v_head_dim);
  compare("scale", found.scale, expected.scale);
  compare("soft_cap", found.soft_cap, expected.soft_cap);
  compare("sliding_window", found.sliding_window, expected.sliding_window);
  compare("RoPE layout", static_cast<int>(found.rope.layout),
          static_cast<int>(expected.rope.layout));
  compare("rope_dims", found.rope.rope_dims, expected.rope.rope_dims);
  compare("RoPE base", found.rope.base, expected.rope.base);
  compare("RoPE scaling", "'" + found.rope.scaling + "'", "'" + expected.rope.scaling + "'");
  const std::vector<float>& logits = found.denominator_logits;
  compare("number of denominator_logits", logits.size(), expected.denominator_logits.size());
  for (size_t head = 0; head < logits.size() && text.view().empty(); ++head) {
    const std::string name = "denominator_logits[" + std::to_string(head) + "]";
    compare(name.c_str(), logits[head], expected.denominator_logits[head]);
  }
  return text.str();
}

// The models have different fingerprints: names both by their names for people, if these differ.
std::string ModelDifference(const ModelSpec& found, const ModelSpec& expected) {
  const std::string made_by = found.source.ToString();
  const std::string asked_by = expected.source.ToString();
  if (!made_by.empty() && !asked_by.empty() && made_by != asked_by) {
    return "made by " + made_by + ", asked by " + asked_by;
  }
  return (made_by.empty() ? "" : "made by " + made_by + ", ") + "fingerprint " +
         Quoted(FingerprintText(found.fingerprint)) + ", expected " +
         Quoted(FingerprintText(expected.fingerprint));
}

}  // namespace

std::string SpecDifference(const ModelSpec& found, const ModelSpec& expected) {
  if (found.fingerprint != expected.fingerprint) return ModelDifference(found, expected);
  if (found.unrotated_keys != expected.unrotated_keys) {
    const auto text = [](bool unrotated) {
      return std::string(unrotated ? "without RoPE" : "rotated");
    };
    return "keys " + text(found.unrotated_keys) + ", expected keys " +
           text(expected.unrotated_keys);
  }
  if (found.kv_dtype != expected.kv_dtype) {
    return "kv_dtype " + std::string(DTypeName(found.kv_dtype)) + ", expected " +
           std::string(DTypeName(expected.kv_dtype));
  }
  if (found.num_layers() != expected.num_layers()) {
    return "num_layers " + std::to_string(found.num_layers()) + ", expected " +
           std::to_string(expected.num_layers());
  }
  for (LayerId layer = 0; layer < expected.num_layers(); ++layer) {
    const std::string what = LayerDifference(found.layers[layer], expected.layers[layer]);
    if (!what.empty()) return "layer " + std::to_string(layer) + ": " + what;
  }
  return "another field of the spec";
}

}  // namespace attndb::store
