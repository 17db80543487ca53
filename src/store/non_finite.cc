#include "store/non_finite.h"

namespace attndb::store {

std::vector<std::byte> EncodeNonFinite(const std::vector<std::vector<bool>>& flags) {
  std::vector<std::byte> bytes;
  size_t bit = 0;
  bool any = false;
  for (const std::vector<bool>& layer : flags) {
    for (const bool flag : layer) {
      if (bit % 8 == 0) bytes.push_back(std::byte{0});
      if (flag) bytes.back() |= std::byte{1} << (bit % 8);
      any = any || flag;
      ++bit;
    }
  }
  if (!any) bytes.clear();
  return bytes;
}

void DecodeNonFinite(std::span<const std::byte> bytes, const ModelSpec& spec,
                     std::set<std::pair<uint32_t, uint32_t>>* heads) {
  size_t bit = 0;
  for (uint32_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (uint32_t head = 0; head < spec.layers[layer].num_kv_heads; ++head, ++bit) {
      if (bit / 8 >= bytes.size()) return;
      if ((bytes[bit / 8] >> (bit % 8) & std::byte{1}) != std::byte{0})
        heads->insert({layer, head});
    }
  }
}

}  // namespace attndb::store
