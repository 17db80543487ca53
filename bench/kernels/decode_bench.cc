// Question: what share of the memory's read bandwidth does exact decode attention reach on one
//           core?
//
// 128K tokens a kv head. The kv heads of a 512 MiB buffer take turns, so that each run was last
// touched many times the last-level cache ago. Each sample reads one head with XorWords (the limit)
// and attends over the next, so both see the same machine; shares are taken within a sample.
#include <cmath>
#include <string>
#include <vector>

#include "bench/kernels/bench_util.h"
#include "kernels/attend.h"

namespace attndb::bench {
namespace {

constexpr size_t kTokens = 128 * 1024;
constexpr size_t kBufferBytes = size_t{512} << 20;

double DecodeGbps(const char* data, size_t num_bytes, DType dtype, size_t head_dim, size_t group,
                  const float* q, float* state_floats) {
  const kernels::LogitSpec logit = {1.0f / std::sqrt(static_cast<float>(head_dim)), 0.0f};
  const kernels::StateRows states = {state_floats, state_floats + 16, state_floats + 32, head_dim};
  const kernels::RowsView k = {data, head_dim, head_dim, dtype};
  const kernels::RowsView v = {data + num_bytes / 2, head_dim, head_dim, dtype};
  const double start = ThreadSeconds();
  kernels::InitStates(states, group, head_dim);
  kernels::AttendRows(k, v, 0, kTokens, q, head_dim, group, logit, states);
  kernels::FinishStates(states, group, head_dim, states.out, head_dim, nullptr);
  sink = sink + static_cast<uint64_t>(states.out[0]);
  return Gbps(num_bytes, start);
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  Report report("decode: exact attention of one token over 128K, one thread", options);
  Buffer q_store(1 << 20), state_store(1 << 20);
  FillNormal(&q_store, DType::kFloat32, 1);
  const float* const q = reinterpret_cast<const float*>(q_store.data());
  float* const states = reinterpret_cast<float*>(state_store.data());
  std::map<std::string, double> aims;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    Buffer buffer(kBufferBytes);
    FillNormal(&buffer, dtype, 2);
    Pieces pieces(&buffer);
    for (size_t round = 0; round < options.num_rounds; ++round) {
      for (const size_t head_dim : std::vector<size_t>{64, 128, 256}) {
        const size_t num_bytes = 2 * kTokens * head_dim * DTypeBytes(dtype);
        for (const size_t group : std::vector<size_t>{1, 3, 4, 8}) {
          const std::string name = "decode/" + std::string(DTypeName(dtype)) + "/d" +
                                   std::to_string(head_dim) + "/group" + std::to_string(group);
          const double read = ReadGbps(pieces.Next(num_bytes), num_bytes);
          const double decode =
              DecodeGbps(pieces.Next(num_bytes), num_bytes, dtype, head_dim, group, q, states);
          report.Add("read", "GB/s", read);
          report.Add(name, "GB/s", decode);
          report.AddShare(name, decode / read);
          aims[name] = group <= 4 ? 0.85 : 0.70;
        }
      }
    }
  }
  report.Finish(aims);
  return 0;
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
