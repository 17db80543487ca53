#include "bench/calls/call_sessions.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <utility>

#include "bench/checked.h"
#include "bench/kernels/bench_util.h"

namespace attndb::bench {
namespace {

constexpr uint64_t kChunkTokens = 4096;
constexpr uint64_t kRows = 16;  // Tokens that steps go around and around in.

ModelSpec SpecOf(const CallShape& shape) {
  LayerSpec layer;
  layer.num_q_heads = shape.num_kv_heads * shape.group_size;
  layer.num_kv_heads = shape.num_kv_heads;
  layer.head_dim = shape.head_dim;
  layer.v_head_dim = shape.head_dim;
  return ModelSpec::Uniform(kCallLayers, layer, DType::kFloat16, "calls_bench");
}

std::vector<float> Normal(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// 3 to 4.5, in no order.
float LogitDeviation(size_t head) {
  const double turns = 0.618 * static_cast<double>(head);
  return static_cast<float>(3 + 1.5 * (turns - std::floor(turns)));
}

}  // namespace

std::string CallShape::Name() const {
  return std::to_string(num_kv_heads) + "x" + std::to_string(group_size) + "x" +
         std::to_string(head_dim) + "/" + std::to_string(num_tokens);
}

uint64_t CallShape::LayerBytes() const {
  return num_tokens * num_kv_heads * head_dim * 2 * DTypeBytes(DType::kFloat16);
}

CallSessions::CallSessions(const CallShape& shape)
    : shape_(shape), spec_(SpecOf(shape)), folder_("attndb_calls") {
  const LayerSpec& layer = spec_.layers.front();
  const size_t row = size_t{layer.num_kv_heads} * layer.head_dim;
  k_ = Normal((shape.num_tokens + kRows) * row, 1);
  v_ = Normal((shape.num_tokens + kRows) * row, 2);
  q_ = Normal(kRows * layer.num_q_heads * layer.head_dim, 3);
  for (size_t i = 0; i < q_.size(); ++i) {
    const size_t head = i / layer.head_dim % layer.num_q_heads;
    q_[i] *= LogitDeviation(head);
  }
  out_.resize(size_t{layer.num_q_heads} * layer.head_dim);
  for (uint64_t i = 0; i <= shape.num_tokens; ++i) tokens_.push_back(static_cast<TokenId>(i));
  Store();
}

TensorView CallSessions::Rows(const std::vector<float>& values, uint64_t first, uint64_t count,
                              uint32_t num_heads) const {
  return TensorView::Contiguous(values.data() + first * num_heads * shape_.head_dim,
                                DType::kFloat32, static_cast<int64_t>(count), num_heads,
                                shape_.head_dim);
}

// With its planes, and with what the machine takes.
void CallSessions::Store() {
  const DB db = Checked(DB::Open(folder_.path()));
  Check(db.Machine(/*measure=*/true).status());
  SessionStart start = Checked(db.CreateSession(spec_, tokens_));
  for (uint64_t first = 0; first < shape_.num_tokens; first += kChunkTokens) {
    const uint64_t count = std::min(kChunkTokens, shape_.num_tokens - first);
    for (LayerId layer = 0; layer < kCallLayers; ++layer) {
      Check(start.session.Append(layer, Rows(k_, first, count, shape_.num_kv_heads),
                                 Rows(v_, first, count, shape_.num_kv_heads)));
    }
  }
  Check(db.Store(start.session, std::span(tokens_).first(shape_.num_tokens)).status());
  Check(db.WaitForBackground());
}

size_t CallSessions::Open(const std::string& plan, uint32_t num_threads) {
  DBOptions options;
  options.read_only = true;
  options.num_threads = num_threads;
  dbs_.push_back(Checked(DB::Open(folder_.path(), options)));
  sessions_.push_back(
      std::move(Checked(dbs_.back().CreateSession(spec_, tokens_, {.plan = plan})).session));
  num_steps_.push_back(0);
  return sessions_.size() - 1;
}

double CallSessions::Step(size_t session) {
  const LayerSpec& shape = spec_.layers.front();
  const uint64_t row = num_steps_[session]++ % kRows;
  if (row == 0) Check(sessions_[session].Crop(shape_.num_tokens));
  const auto out = MutableTensorView::Contiguous(out_.data(), DType::kFloat32, 1, shape.num_q_heads,
                                                 shape.v_head_dim);
  double seconds = 0;
  for (LayerId layer = 0; layer < kCallLayers; ++layer) {
    const uint64_t token = shape_.num_tokens + row;
    Check(sessions_[session].Append(layer, Rows(k_, token, 1, shape.num_kv_heads),
                                    Rows(v_, token, 1, shape.num_kv_heads)));
    const double start = Seconds();
    Check(sessions_[session].Attend(layer, Rows(q_, row, 1, shape.num_q_heads), out));
    seconds += Seconds() - start;
  }
  return seconds / kCallLayers;
}

}  // namespace attndb::bench
