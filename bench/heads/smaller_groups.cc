#include "bench/heads/smaller_groups.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace attndb::bench {
namespace {

HeadInfo WithGroups(HeadInfo info, uint32_t group_size) {
  for (LayerSpec& layer : info.model.layers) layer.num_q_heads = layer.num_kv_heads * group_size;
  info.description += ", " + std::to_string(group_size) + " q " +
                      (group_size == 1 ? "head" : "heads") + " of each group";
  return info;
}

class GroupedHeads : public HeadSource {
 public:
  GroupedHeads(std::unique_ptr<HeadSource> source, uint32_t group_size)
      : HeadSource(WithGroups(source->info(), group_size)),
        source_(std::move(source)),
        group_size_(group_size) {}

  Status ReadKv(size_t i, TokenRange range, float* k, float* v) override {
    return source_->ReadKv(i, range, k, v);
  }

  Status ReadQueries(size_t i, TokenRange range, float* q) override {
    const LayerSpec& whole = source_->info().layer(i);
    const size_t whole_group = size_t{whole.group_size()} * whole.head_dim;
    const size_t group = size_t{group_size_} * whole.head_dim;
    const size_t num_groups = (range.end - range.begin) * whole.num_kv_heads;
    rows_.resize(num_groups * whole_group);
    ATTNDB_RETURN_IF_ERROR(source_->ReadQueries(i, range, rows_.data()));
    for (size_t g = 0; g < num_groups; ++g) {
      std::copy_n(rows_.data() + g * whole_group, group, q + g * group);
    }
    return Status();
  }

 private:
  const std::unique_ptr<HeadSource> source_;
  const uint32_t group_size_;
  std::vector<float> rows_;
};

}  // namespace

Result<std::unique_ptr<HeadSource>> SmallerGroups(std::unique_ptr<HeadSource> source,
                                                  uint32_t group_size) {
  for (const LayerId layer : source->info().layers) {
    const uint32_t found = source->info().model.layers[layer].group_size();
    if (group_size <= found) continue;
    return Status::InvalidArgument("layer " + std::to_string(layer) + " has " +
                                   std::to_string(found) + " q heads a group, expected " +
                                   std::to_string(group_size) + " or more");
  }
  return std::unique_ptr<HeadSource>(std::make_unique<GroupedHeads>(std::move(source), group_size));
}

}  // namespace attndb::bench
