// Question: how long does a scan of product codes take on one core, scores or weights, and what
//           does it cost to make tables and codes?
//
// 131,072 keys, of which codes take 0.5 to 4 MiB, so that they come from the second or third cache
// as they do in a session that decodes. Scores are asked for 4,096 keys at a time and overwrite
// those of the call before. Weights of all keys are written, 2 bytes each, with sums by 64 and the
// maxima of the group. Shares are those of the read limit: bytes of codes over time.
#include "kernels/product_codes.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "bench/kernels/bench_util.h"

namespace attndb::bench {
namespace {

constexpr size_t kKeys = 128 * 1024;
constexpr size_t kCallKeys = 4096;
constexpr size_t kChannels = 128;
constexpr size_t kMaxGroup = 8;
constexpr size_t kRepeats = 8;

struct Shape {
  size_t num_subspaces;
  size_t bits;
};

// All that scans of one shape read.
class Head {
 public:
  Head(const Shape& shape, const float* numbers, const char* bytes)
      : shape_(shape),
        entries_(kernels::LookupTableBytes(shape.num_subspaces, shape.bits, kMaxGroup)),
        codes_(num_bytes()),
        half_squares_(shape.num_subspaces * kernels::CodeEntries(shape.bits), 1.0f),
        numbers_(numbers) {
    const char mask = shape.bits == 6 ? 63 : -1;
    for (size_t i = 0; i < num_bytes(); ++i) {
      codes_.data()[i] = static_cast<char>(bytes[i] & mask);
    }
  }

  size_t num_bytes() const {
    return kKeys / kernels::kCodeKeys * kernels::CodeBlockBytes(shape_.num_subspaces, shape_.bits);
  }
  const char* codes() const { return codes_.data(); }
  kernels::ProductCodesView view() const {
    return {reinterpret_cast<const uint8_t*>(codes_.data()), shape_.num_subspaces, shape_.bits};
  }
  kernels::CodebookView codebook() const {
    return {numbers_, half_squares_.data(), kChannels, shape_.num_subspaces, shape_.bits};
  }
  // Tables of `num_rows` rows of q.
  kernels::LookupTables Tables(size_t num_rows) {
    return kernels::BuildLookupTables(codebook(), numbers_, kChannels, num_rows,
                                      reinterpret_cast<std::byte*>(entries_.data()), rows_);
  }

 private:
  const Shape shape_;
  Buffer entries_;
  Buffer codes_;
  std::vector<float> half_squares_;
  const float* const numbers_;
  kernels::TableRow rows_[kMaxGroup];
};

// Microseconds for all keys.
double ScanUs(Head* head, size_t num_rows) {
  static float scores[kMaxGroup * kCallKeys];
  const kernels::LookupTables tables = head->Tables(num_rows);
  const double start = ThreadSeconds();
  for (size_t i = 0; i < kRepeats; ++i) {
    for (size_t key = 0; key < kKeys; key += kCallKeys) {
      kernels::ScanProductCodes(head->view(), key, kCallKeys, tables, scores, kCallKeys);
      sink = sink + static_cast<uint64_t>(scores[0] > 0);
    }
  }
  return (ThreadSeconds() - start) * 1e6 / kRepeats;
}

double WeighUs(Head* head, size_t num_rows, bool has_maxima) {
  static uint16_t weights[kMaxGroup * kKeys], maxima[kKeys];
  static float sums[kMaxGroup * kKeys / kernels::kCodeKeys],
      maxima_sums[kKeys / kernels::kCodeKeys];
  const kernels::LookupTables tables = head->Tables(num_rows);
  kernels::WeightRow maps[kMaxGroup];
  for (size_t r = 0; r < num_rows; ++r) {
    maps[r] = kernels::MapWeights(tables.rows[r], 0.1f, 0.1f * tables.rows[r].max_score);
  }
  kernels::CodeWeights out = {weights, kKeys, sums, kKeys / kernels::kCodeKeys};
  if (has_maxima) {
    out.maxima = maxima;
    out.maxima_sums = maxima_sums;
  }
  const double start = ThreadSeconds();
  for (size_t i = 0; i < kRepeats; ++i) {
    kernels::WeighProductCodes(head->view(), 0, kKeys, tables, maps, out);
    sink = sink + weights[0];
  }
  return (ThreadSeconds() - start) * 1e6 / kRepeats;
}

double TablesUs(Head* head, size_t num_rows) {
  constexpr size_t kTimes = 100;
  const double start = ThreadSeconds();
  for (size_t i = 0; i < kTimes; ++i) {
    sink = sink + static_cast<uint64_t>(head->Tables(num_rows).rows[0].scale > 0);
  }
  return (ThreadSeconds() - start) * 1e6 / kTimes;
}

double EncodeNs(const Head& head, const float* rows) {
  constexpr size_t kBlocks = 64;
  static uint8_t block[kernels::kCodeKeys * kernels::kMaxSubspaces];
  float gains[kernels::kCodeKeys];
  const double start = ThreadSeconds();
  for (size_t i = 0; i < kBlocks; ++i) {
    kernels::EncodeProductCodes(head.codebook(), rows + i % 8 * kernels::kCodeKeys * kChannels,
                                kChannels, kernels::kCodeKeys, block, gains);
    sink = sink + block[0];
  }
  return (ThreadSeconds() - start) * 1e9 / (kBlocks * kernels::kCodeKeys);
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  Report report("product codes: scan of 128K keys, tables, and making codes, one thread", options);
  Buffer numbers_store(1 << 20), bytes(size_t{8} << 20);
  FillNormal(&numbers_store, DType::kFloat32, 1);
  FillNormal(&bytes, DType::kFloat32, 2);
  const float* const numbers = reinterpret_cast<const float*>(numbers_store.data());
  // Bits of mantissas are codes of all values.
  for (size_t i = 0; i < bytes.size(); ++i) bytes.data()[i] = bytes.data()[i / 4 * 4 + i % 2];
  std::vector<Shape> shapes;
  for (const size_t num_subspaces : std::vector<size_t>{4, 8, 16, 32}) {
    for (const size_t bits : std::vector<size_t>{4, 6, 8}) shapes.push_back({num_subspaces, bits});
  }
  for (size_t round = 0; round < options.num_rounds; ++round) {
    for (const Shape& shape : shapes) {
      Head head(shape, numbers, bytes.data());
      const std::string name =
          std::to_string(shape.num_subspaces) + "x" + std::to_string(shape.bits);
      const double read = ReadGbps(head.codes(), head.num_bytes());
      report.Add("read", "GB/s", read);
      for (const size_t num_rows : std::vector<size_t>{1, 4, 8}) {
        const std::string group = name + "/group" + std::to_string(num_rows);
        const double scan = ScanUs(&head, num_rows);
        report.Add("scan/" + group, "us", scan);
        report.AddShare("scan/" + group,
                        static_cast<double>(head.num_bytes()) / scan * 1e-3 / read);
        const double weigh = WeighUs(&head, num_rows, false);
        report.Add("weigh/" + group, "us", weigh);
        report.Add("weigh, a key/" + group, "ns", weigh * 1e3 / kKeys);
        report.Add("weigh, codes/" + group, "GB/s",
                   static_cast<double>(head.num_bytes()) / weigh * 1e-3);
        report.Add("weigh+max/" + group, "us", WeighUs(&head, num_rows, true));
        report.Add("tables/" + group, "us", TablesUs(&head, num_rows));
      }
      report.Add("encode/" + name, "ns/key", EncodeNs(head, numbers));
    }
  }
  report.Finish({});
  return 0;
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
