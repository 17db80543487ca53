// Question: how much faster is our exact attention than llama.cpp's CPU flash attention?
//
// Same f16 keys and values, same shapes, same threads, in turns within one run; first compares both
// with float64. Prefill: 512 new tokens on 16K stored, causal; decode: one new token on 32K,
// 32 q heads over 8 kv heads of 128. One thread is timed by its own clock, two by the wall's.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "bench/kernels/bench_util.h"
#include "bench/kernels/ggml_attention.h"
#include "kernels/attend.h"
#include "kernels/attend_block.h"
#include "kernels/reference/reference.h"

namespace attndb::bench {
namespace {

// Our side: each thread takes every num_threads-th kv head.
class OurAttention {
 public:
  OurAttention(const AttentionShape& shape, const float* q, const char* k, const char* v)
      : shape_(shape),
        k_(k),
        v_(v),
        group_(shape.num_q_heads / shape.num_kv_heads),
        rows_(group_ * shape.num_new),
        q_(shape.num_q_heads * shape.num_new * shape.head_dim * 4),
        out_(q_.size()),
        scratch_(2 * Scratch()),
        stats_(shape.num_kv_heads * StatsBytes()) {
    float* const to = reinterpret_cast<float*>(q_.data());
    for (size_t head = 0; head < shape.num_q_heads; ++head) {  // To [kv head][new token][group].
      for (size_t token = 0; token < shape.num_new; ++token) {
        const size_t row = head / group_ * rows_ + token * group_ + head % group_;
        std::copy_n(q + (head * shape.num_new + token) * shape.head_dim, shape.head_dim,
                    to + row * shape.head_dim);
      }
    }
    for (size_t token = 0; token < shape.num_new; ++token) {
      const size_t hi = shape.num_tokens - shape.num_new + token + 1;
      hi_.insert(hi_.end(), group_, static_cast<uint32_t>(hi));
    }
  }

  void Run(size_t num_threads) {
    std::vector<std::thread> threads;
    for (size_t t = 1; t < num_threads; ++t) {
      threads.emplace_back([=, this] { RunHeads(t, num_threads); });
    }
    RunHeads(0, num_threads);
    for (std::thread& thread : threads) thread.join();
  }

  float Out(size_t head, size_t token, size_t i) const {
    const size_t row = head / group_ * rows_ + token * group_ + head % group_;
    return reinterpret_cast<const float*>(out_.data())[row * shape_.head_dim + i];
  }

 private:
  // Maxima and sums of a head's rows, in cache lines of their own: other threads write others'.
  size_t StatsBytes() const { return (rows_ * 2 * sizeof(float) + 127) / 128 * 128; }
  size_t Scratch() const {
    return kernels::AttendBlockScratchBytes(shape_.head_dim, shape_.head_dim);
  }

  void RunHeads(size_t thread, size_t num_threads) {
    const size_t dim = shape_.head_dim;
    const kernels::LogitSpec logit = {1.0f / std::sqrt(static_cast<float>(dim)), 0.0f};
    for (size_t head = thread; head < shape_.num_kv_heads; head += num_threads) {
      const size_t kv_bytes = head * shape_.num_tokens * dim * 2;
      const kernels::RowsView k = {k_ + kv_bytes, dim, dim, DType::kFloat16};
      const kernels::RowsView v = {v_ + kv_bytes, dim, dim, DType::kFloat16};
      const float* const q = reinterpret_cast<const float*>(q_.data()) + head * rows_ * dim;
      float* const out = reinterpret_cast<float*>(out_.data()) + head * rows_ * dim;
      float* const stats = reinterpret_cast<float*>(stats_.data() + head * StatsBytes());
      const kernels::StateRows states = {stats, stats + rows_, out, dim};
      kernels::InitStates(states, rows_, dim);
      if (shape_.num_new == 1) {
        kernels::AttendRows(k, v, 0, shape_.num_tokens, q, dim, rows_, logit, states);
      } else {
        kernels::AttendBlock(k, v, 0, shape_.num_tokens, q, dim, rows_, nullptr, hi_.data(), logit,
                             states, scratch_.data() + thread * Scratch());
      }
      kernels::FinishStates(states, rows_, dim, out, dim, nullptr);
    }
  }

  AttentionShape shape_;
  const char* k_;
  const char* v_;
  size_t group_, rows_;
  Buffer q_, out_, scratch_, stats_;
  std::vector<uint32_t> hi_;
};

// Relative errors against float64, over a few rows; ends the process if ours is not small.
void CheckErrors(const std::string& name, const AttentionShape& shape, const float* q,
                 const Buffer& k, const Buffer& v, const OurAttention& ours,
                 const GgmlAttention& ggml) {
  double our_error = 0, their_error = 0, norm = 0;
  for (size_t sample = 0; sample < 4; ++sample) {
    const size_t head = sample * (shape.num_q_heads - 1) / 3;
    const size_t token = sample * (shape.num_new - 1) / 3;
    const size_t kv_head = head / (shape.num_q_heads / shape.num_kv_heads);
    const size_t kv_bytes = kv_head * shape.num_tokens * shape.head_dim * 2;
    const kernels::RowsView keys = {k.data() + kv_bytes, shape.head_dim, shape.head_dim,
                                    DType::kFloat16};
    const kernels::RowsView values = {v.data() + kv_bytes, shape.head_dim, shape.head_dim,
                                      DType::kFloat16};
    std::vector<uint32_t> seen(shape.num_tokens - shape.num_new + token + 1);
    std::iota(seen.begin(), seen.end(), 0u);
    const auto expected = kernels::reference::Attend(
        keys, values, seen, q + (head * shape.num_new + token) * shape.head_dim,
        {1.0f / std::sqrt(static_cast<float>(shape.head_dim)), 0.0f});
    for (size_t i = 0; i < shape.head_dim; ++i) {
      const auto theirs =
          static_cast<double>(ggml.out()[(token * shape.num_q_heads + head) * shape.head_dim + i]);
      const auto own = static_cast<double>(ours.Out(head, token, i));
      our_error += (own - expected.out[i]) * (own - expected.out[i]);
      their_error += (theirs - expected.out[i]) * (theirs - expected.out[i]);
      norm += expected.out[i] * expected.out[i];
    }
  }
  our_error = std::sqrt(our_error / norm);
  std::printf("%s: relative error against float64: ours %.1e, ggml's %.1e\n", name.c_str(),
              our_error, std::sqrt(their_error / norm));
  if (!(our_error < 1e-4)) std::exit(1);
}

double Time(size_t num_threads, const std::function<void()>& run) {
  const auto clock = num_threads == 1 ? ThreadSeconds : Seconds;
  const double start = clock();
  run();
  return clock() - start;
}

// `work` is what a run does, in units of 1e9: flops or bytes.
void Compare(const std::string& name, const std::string& unit, const AttentionShape& shape,
             double work, std::vector<double> aims, const Options& options, Report* report,
             std::map<std::string, double>* all_aims) {
  Buffer q(shape.num_q_heads * shape.num_new * shape.head_dim * 4);
  Buffer k(shape.num_kv_heads * shape.num_tokens * shape.head_dim * 2), v(k.size());
  FillNormal(&q, DType::kFloat32, 1);
  FillNormal(&k, DType::kFloat16, 2);
  FillNormal(&v, DType::kFloat16, 3);
  GgmlAttention ggml(shape, reinterpret_cast<const float*>(q.data()), k.data(), v.data());
  OurAttention ours(shape, reinterpret_cast<const float*>(q.data()), k.data(), v.data());
  for (size_t round = 0; round < options.num_rounds; ++round) {
    for (const size_t num_threads : std::vector<size_t>{1, 2}) {
      const double theirs = Time(num_threads, [&] { ggml.Run(static_cast<int>(num_threads)); });
      const double own = Time(num_threads, [&] { ours.Run(num_threads); });
      if (round == 0 && num_threads == 1) {
        CheckErrors(name, shape, reinterpret_cast<const float*>(q.data()), k, v, ours, ggml);
      }
      const std::string threads = "/threads" + std::to_string(num_threads);
      report->Add(name + threads + "/ggml", unit, work / theirs);
      report->Add(name + threads, unit, work / own);
      report->AddShare(name + threads, theirs / own);
      (*all_aims)[name + threads] = aims[num_threads - 1];
    }
  }
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  Report report("peer: exact attention against llama.cpp's flash attention, f16", options);
  std::map<std::string, double> aims;
  for (const size_t head_dim : std::vector<size_t>{64, 128}) {
    const AttentionShape shape = {head_dim, 8, 2, 16384 + 512, 512};
    const double seen = 512.0 * 16384 + 512.0 * 513 / 2;
    Compare("prefill/f16/d" + std::to_string(head_dim), "GFLOP/s", shape,
            8 * 4e-9 * static_cast<double>(head_dim) * seen, {2, 2}, options, &report, &aims);
  }
  const AttentionShape shape = {128, 32, 8, 32768, 1};
  Compare("decode/f16/d128/32K", "GB/s", shape, 8 * 32768 * 128 * 4e-9, {4, 2.5}, options, &report,
          &aims);
  report.Finish(aims);
  return 0;
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
