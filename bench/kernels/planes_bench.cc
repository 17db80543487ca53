// Question: what share of the memory's read bandwidth does the scan of key planes reach on one
//           core, and what does it cost to make them?
//
// The blocks of a 512 MiB buffer take turns, so that each was last touched many times the
// last-level cache ago. A sample reads one piece with XorWords (the limit) and scans the next, so
// both see the same machine; shares are taken within a sample. Bytes are those of planes and
// scales. The scan is called for 4096 keys at a time and its scores overwrite those of the call
// before, as an engine's do that works on them at once. Keys are made of float32 rows that fit into
// L2, a call of HadamardRows and one of EncodePlanes for each block.
#include "kernels/planes.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "bench/kernels/bench_util.h"
#include "kernels/hadamard.h"

namespace attndb::bench {
namespace {

constexpr size_t kKeys = 128 * 1024;
constexpr size_t kCallKeys = 4096;
constexpr size_t kBufferBytes = size_t{512} << 20;
constexpr size_t kMaxChannels = 128;
constexpr size_t kMaxGroup = 4;

double ScanGbps(const char* data, int bits, size_t num_channels, size_t group,
                const kernels::PlaneQuery* queries, size_t num_bytes) {
  static float scores[kMaxGroup * kCallKeys];
  const size_t plane_bytes = kKeys * num_channels / 2;
  const auto* const high = reinterpret_cast<const uint8_t*>(data);
  const size_t scales_at = bits == 8 ? 2 * plane_bytes : plane_bytes;
  const kernels::PlanesView planes = {high, bits == 8 ? high + plane_bytes : nullptr,
                                      reinterpret_cast<const uint16_t*>(data + scales_at),
                                      num_channels};
  const double start = ThreadSeconds();
  for (size_t key = 0; key < kKeys; key += kCallKeys) {
    kernels::ScanPlanes(planes, bits, key, kCallKeys, queries, group, scores, kCallKeys);
    sink = sink + static_cast<uint64_t>(scores[0] > 0);
  }
  return Gbps(num_bytes, start);
}

// Nanoseconds a key.
double EncodeNs(const float* rows, size_t num_channels, bool rotate, bool residual) {
  constexpr size_t kRepeats = 2048;
  static float work[kernels::kPlaneKeys * kMaxChannels];
  static uint8_t planes[2 * kernels::PlaneBlockBytes(kMaxChannels)];
  static const std::vector<float> kSigns(2 * kMaxChannels, -1.0f);
  uint16_t scales[kernels::kPlaneKeys];
  float residual_sq[kernels::kPlaneKeys];
  const size_t num_floats = kernels::kPlaneKeys * num_channels;
  const double start = ThreadSeconds();
  for (size_t i = 0; i < kRepeats; ++i) {
    std::memcpy(work, rows + i % 16 * num_floats, num_floats * sizeof(float));
    if (rotate) {
      kernels::HadamardRows(work, num_channels, kernels::kPlaneKeys, num_channels, kSigns.data());
    }
    kernels::EncodePlanes(work, num_channels, kernels::kPlaneKeys, num_channels, planes,
                          planes + sizeof(planes) / 2, scales, residual ? residual_sq : nullptr);
    sink = sink + planes[0];
  }
  return (ThreadSeconds() - start) * 1e9 / static_cast<double>(kRepeats * kernels::kPlaneKeys);
}

// The same q row for each of the group: its codes are read from the L1 cache either way.
std::vector<kernels::PlaneQuery> MakeGroup(const float* q, std::vector<int8_t>* codes) {
  std::vector<kernels::PlaneQuery> queries(kMaxGroup);
  codes->resize(kMaxGroup * kMaxChannels);
  for (size_t r = 0; r < kMaxGroup; ++r) {
    int8_t* const row = codes->data() + r * kMaxChannels;
    kernels::EncodePlaneQuery(q + r * kMaxChannels, kMaxChannels, row, &queries[r].scale,
                              &queries[r].code_sum);
    queries[r].codes = row;
  }
  return queries;
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  Report report("planes: scan of 128K quantized keys, and making them, one thread", options);
  Buffer buffer(kBufferBytes), rows_store(1 << 20);
  FillNormal(&buffer, DType::kBFloat16, 1);  // Any bits are codes; scales are finite.
  FillNormal(&rows_store, DType::kFloat32, 2);
  const float* const rows = reinterpret_cast<const float*>(rows_store.data());
  std::vector<int8_t> codes;
  const std::vector<kernels::PlaneQuery> queries = MakeGroup(rows, &codes);
  Pieces pieces(&buffer);
  std::map<std::string, double> aims;
  for (size_t round = 0; round < options.num_rounds; ++round) {
    for (const size_t num_channels : std::vector<size_t>{64, 128}) {
      const std::string d = "/d" + std::to_string(num_channels);
      for (const int bits : {4, 8}) {
        const size_t num_bytes = kKeys * (num_channels * static_cast<size_t>(bits) / 8 + 2);
        for (const size_t group : std::vector<size_t>{1, 3, 4}) {
          const std::string name =
              "scan/" + std::to_string(bits) + "bit" + d + "/group" + std::to_string(group);
          const double read = ReadGbps(pieces.Next(num_bytes), num_bytes);
          const double scan = ScanGbps(pieces.Next(num_bytes), bits, num_channels, group,
                                       queries.data(), num_bytes);
          report.Add("read", "GB/s", read);
          report.Add(name, "GB/s", scan);
          report.AddShare(name, scan / read);
          aims[name] = bits == 4 ? 0.75 : 0.85;
        }
      }
      report.Add("encode" + d, "ns/key", EncodeNs(rows, num_channels, false, false));
      report.Add("encode+residual" + d, "ns/key", EncodeNs(rows, num_channels, false, true));
      report.Add("rotate+encode+residual" + d, "ns/key", EncodeNs(rows, num_channels, true, true));
    }
  }
  report.Finish(aims);
  return 0;
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
