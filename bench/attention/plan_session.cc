#include "bench/attention/plan_session.h"

#include "cli/common/progress.h"

namespace attndb::bench {

Result<StepRows> StepRows::Read(HeadSource* source, uint64_t num_rows) {
  const HeadInfo& info = source->info();
  const uint64_t first = info.num_tokens - num_rows;
  StepRows rows;
  for (uint64_t row = 0; row < num_rows; ++row) {
    const TokenRange token = {first + row, first + row + 1};
    auto& k = rows.k.emplace_back(info.layers.size());
    auto& v = rows.v.emplace_back(info.layers.size());
    auto& q = rows.q.emplace_back(info.layers.size());
    for (size_t i = 0; i < info.layers.size(); ++i) {
      const LayerSpec& layer = info.layer(i);
      k[i].resize(size_t{layer.num_kv_heads} * layer.head_dim);
      v[i].resize(size_t{layer.num_kv_heads} * layer.v_head_dim);
      q[i].resize(size_t{layer.num_q_heads} * layer.head_dim);
      ATTNDB_RETURN_IF_ERROR(source->ReadKv(i, token, k[i].data(), v[i].data()));
      ATTNDB_RETURN_IF_ERROR(source->ReadQueries(i, token, q[i].data()));
    }
  }
  return rows;
}

Status PlanSession::Step(const StepRows& rows, size_t row, StepOutput* output) {
  const size_t num_layers = info_->layers.size();
  output->out.resize(num_layers);
  output->lse.resize(num_layers);
  output->mass_bounds.assign(num_layers, {});
  output->out_bounds.assign(num_layers, {});
  output->ms = 0;
  output->bytes_touched = 0;
  for (size_t i = 0; i < num_layers; ++i) {
    const LayerSpec& layer = info_->layer(i);
    const auto id = static_cast<LayerId>(i);
    const auto view = [](const std::vector<float>& values, uint32_t heads, uint32_t dim) {
      return TensorView::Contiguous(values.data(), DType::kFloat32, 1, heads, dim);
    };
    ATTNDB_RETURN_IF_ERROR(
        session_.Append(id, view(rows.k[row][i], layer.num_kv_heads, layer.head_dim),
                        view(rows.v[row][i], layer.num_kv_heads, layer.v_head_dim)));
    output->out[i].resize(size_t{layer.num_q_heads} * layer.v_head_dim);
    output->lse[i].resize(layer.num_q_heads);
    const auto out = MutableTensorView::Contiguous(output->out[i].data(), DType::kFloat32, 1,
                                                   layer.num_q_heads, layer.v_head_dim);
    const TensorView q = view(rows.q[row][i], layer.num_q_heads, layer.head_dim);
    const double start = cli::MonotonicSeconds();
    ATTNDB_RETURN_IF_ERROR(session_.Attend(id, q, out, output->lse[i].data()));
    output->ms += (cli::MonotonicSeconds() - start) * 1e3;
    ATTNDB_ASSIGN_OR_RETURN(const LayerExplain explain, session_.Explain(id));
    for (const HeadExplain& head : explain.heads) {
      const auto append = [i](const std::vector<double>& from, auto* to) {
        (*to)[i].insert((*to)[i].end(), from.begin(), from.end());
      };
      append(head.last_mass_bounds, &output->mass_bounds);
      append(head.last_out_bounds, &output->out_bounds);
    }
    output->bytes_touched += static_cast<double>(explain.bytes_touched);
  }
  return Status();
}

Status PlanSession::AwaitDerived() {
  for (size_t i = 0; i < info_->layers.size(); ++i) {
    if (info_->layer(i).sliding_window != 0) continue;  // It has none.
    ATTNDB_RETURN_IF_ERROR(session_.AwaitDerived(static_cast<LayerId>(i)));
  }
  return Status();
}

double PlanSession::SelectedMean() const {
  double sum = 0;
  double count = 0;
  for (const LayerExplain& layer : session_.Explain().layers) {
    if (info_->layer(layer.layer).sliding_window != 0) continue;
    sum += layer.selected_mean;
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

}  // namespace attndb::bench
