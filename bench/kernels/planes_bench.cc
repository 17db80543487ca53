// Question: what share of the memory's read bandwidth does the scan of key planes reach on one
//           core, and what does it cost to make them?
//
// The blocks of a 512 MiB buffer take turns, so that each was last touched many times the
// last-level cache ago. A sample reads one piece with XorWords (the limit) and scans the next, so
// both see the same machine; shares are taken within a sample. Bytes are those of planes and
// scales. The scan is called for 4096 keys at a time, and its scores overwrite
// those of the call before: what a scan writes stays in the L2 cache. Keys are made of float32 rows
// that fit into L2, a call of HadamardRows and one of EncodePlanes for each block. A draw keeps a
// tenth of the keys, in one pass or in one over tiles of 1,024 scores after each scan of these.
#include "kernels/planes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
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
constexpr size_t kMaxGroup = 8;

// Quantized q rows.
struct Group {
  std::vector<int8_t> codes;
  kernels::PlaneQuery planes[kMaxGroup];
};

Group MakeGroup(const float* q, size_t num_channels) {
  Group group;
  group.codes.resize(kMaxGroup * num_channels);
  for (size_t r = 0; r < kMaxGroup; ++r, q += num_channels) {
    int8_t* const codes = group.codes.data() + r * num_channels;
    kernels::PlaneQuery& query = group.planes[r];
    kernels::EncodePlaneQuery(q, num_channels, codes, &query.scale, &query.code_sum);
    query.codes = codes;
  }
  return group;
}

double ScanGbps(const char* data, size_t bits, size_t num_channels, size_t num_rows,
                const Group& group, size_t num_bytes) {
  static float scores[kMaxGroup * kCallKeys];
  const auto* const codes = reinterpret_cast<const uint8_t*>(data);
  const size_t plane_bytes = kKeys * num_channels / 2;
  const auto* const scales =
      reinterpret_cast<const uint16_t*>(data + kKeys * num_channels * bits / 8);
  const kernels::PlanesView planes = {codes, codes + plane_bytes, scales, num_channels};
  const double start = ThreadSeconds();
  for (size_t key = 0; key < kKeys; key += kCallKeys) {
    kernels::ScanPlanes(planes, static_cast<int>(bits), key, kCallKeys, group.planes, num_rows,
                        scores, kCallKeys);
    sink = sink + static_cast<uint64_t>(scores[0] > 0);
  }
  return Gbps(num_bytes, start);
}

// What a draw needs that keeps a tenth of the keys of a scan of 4 bits.
struct Draw {
  std::vector<float> noise;
  std::vector<float> thresholds;
};

Draw MakeDraw(const kernels::PlanesView& planes, size_t num_rows, const Group& group) {
  Draw draw = {std::vector<float>(kCallKeys), std::vector<float>(num_rows)};
  for (size_t i = 0; i < kCallKeys; ++i) {
    const auto place = static_cast<float>(i * 2654435761u % kCallKeys);
    draw.noise[i] = -std::log((place + 0.5f) / kCallKeys);
  }
  std::vector<float> scores(num_rows * kCallKeys);
  kernels::ScanPlanes(planes, 4, 0, kCallKeys, group.planes, num_rows, scores.data(), kCallKeys);
  for (size_t r = 0; r < num_rows; ++r) {
    float* const of_row = scores.data() + r * kCallKeys;
    for (size_t i = 0; i < kCallKeys; ++i) of_row[i] += draw.noise[i];
    const size_t num_kept = kCallKeys / 10 / num_rows;
    std::nth_element(of_row, of_row + num_kept, of_row + kCallKeys, std::greater<>());
    draw.thresholds[r] = of_row[num_kept];
  }
  return draw;
}

double KeepGbps(const char* data, size_t num_channels, size_t num_rows, const Group& group,
                size_t num_bytes, bool in_one_pass) {
  static float scores[kMaxGroup * kCallKeys];
  static uint32_t tokens[kCallKeys];
  static float kept_noise[kCallKeys];
  static float kept_scores[kMaxGroup * kCallKeys];
  const auto* const codes = reinterpret_cast<const uint8_t*>(data);
  const auto* const scales = reinterpret_cast<const uint16_t*>(data + kKeys * num_channels / 2);
  const kernels::PlanesView planes = {codes, nullptr, scales, num_channels};
  const Draw draw = MakeDraw(planes, num_rows, group);
  const kernels::DrawRule rule = {{}, draw.thresholds.data()};
  const double start = ThreadSeconds();
  for (size_t key = 0; key < kKeys; key += kCallKeys) {
    kernels::KeptTokens kept = {tokens, kept_noise, kept_scores, kCallKeys, 0};
    if (in_one_pass) {
      kernels::KeepPlanes(planes, 4, key, kCallKeys, group.planes, num_rows, rule,
                          draw.noise.data(), 0, nullptr, &kept);
    } else {
      constexpr size_t kTile = 1024;
      for (size_t i = 0; i < kCallKeys; i += kTile) {
        kernels::ScanPlanes(planes, 4, key + i, kTile, group.planes, num_rows, scores, kTile);
        kernels::KeepTokens(rule, scores, kTile, num_rows, kTile, draw.noise.data() + i,
                            static_cast<uint32_t>(i), &kept);
      }
    }
    sink = sink + kept.count;
  }
  return Gbps(num_bytes, start);
}

// Nanoseconds a key.
double EncodeNs(const float* rows, size_t num_channels, bool rotate) {
  constexpr size_t kRepeats = 2048;
  static float work[kernels::kPlaneKeys * kMaxChannels];
  static uint8_t planes[2 * kernels::PlaneBlockBytes(kMaxChannels)];
  static const std::vector<float> kSigns(2 * kMaxChannels, -1.0f);
  uint16_t scales[kernels::kPlaneKeys];
  float residual_sq[kernels::kPlaneKeys];
  const kernels::PlaneBlock block = {planes, planes + sizeof(planes) / 2, scales, residual_sq};
  const size_t num_floats = kernels::kPlaneKeys * num_channels;
  const double start = ThreadSeconds();
  for (size_t i = 0; i < kRepeats; ++i) {
    std::memcpy(work, rows + i % 16 * num_floats, num_floats * sizeof(float));
    if (rotate) {
      kernels::HadamardRows(work, num_channels, kernels::kPlaneKeys, num_channels, kSigns.data());
    }
    kernels::EncodePlanes(work, num_channels, kernels::kPlaneKeys, num_channels, block);
    sink = sink + planes[0];
  }
  return (ThreadSeconds() - start) * 1e9 / static_cast<double>(kRepeats * kernels::kPlaneKeys);
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  Report report("planes: scan of 128K quantized keys, and making them, one thread", options);
  Buffer buffer(kBufferBytes), rows_store(1 << 20);
  FillNormal(&buffer, DType::kBFloat16, 1);  // Any bits are codes; scales are finite.
  FillNormal(&rows_store, DType::kFloat32, 2);
  const float* const rows = reinterpret_cast<const float*>(rows_store.data());
  Pieces pieces(&buffer);
  std::map<std::string, double> aims;
  for (size_t round = 0; round < options.num_rounds; ++round) {
    for (const size_t num_channels : std::vector<size_t>{64, 128}) {
      const std::string d = "/d" + std::to_string(num_channels);
      const Group group = MakeGroup(rows, num_channels);
      for (const size_t bits : std::vector<size_t>{4, 8}) {
        const size_t num_bytes = kKeys * (num_channels * bits / 8 + 2);
        for (const size_t num_rows : std::vector<size_t>{1, 3, 4, 8}) {
          const std::string name =
              "scan/" + std::to_string(bits) + "bit" + d + "/group" + std::to_string(num_rows);
          const double read = ReadGbps(pieces.Next(num_bytes), num_bytes);
          const double scan =
              ScanGbps(pieces.Next(num_bytes), bits, num_channels, num_rows, group, num_bytes);
          report.Add("read", "GB/s", read);
          report.Add(name, "GB/s", scan);
          report.AddShare(name, scan / read);
          if (bits == 4 && num_rows <= kernels::kKeepRows) {
            for (const bool in_one_pass : {false, true}) {
              const std::string kind = in_one_pass ? "keep" : "scan+keep";
              report.Add(kind + name.substr(name.find('/')), "GB/s",
                         KeepGbps(pieces.Next(num_bytes), num_channels, num_rows, group, num_bytes,
                                  in_one_pass));
            }
          }
          if (num_rows < 8) aims[name] = bits == 4 ? 0.75 : 0.85;
        }
      }
      report.Add("encode" + d, "ns/key", EncodeNs(rows, num_channels, false));
      report.Add("rotate+encode" + d, "ns/key", EncodeNs(rows, num_channels, true));
    }
  }
  report.Finish(aims);
  return 0;
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
