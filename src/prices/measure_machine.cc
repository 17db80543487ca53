#include "prices/measure_machine.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "attention/threshold_sample.h"
#include "attndb/num_cores.h"
#include "common/aligned_buffer.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/thread_pool.h"
#include "kernels/attend.h"
#include "kernels/bandwidth.h"
#include "kernels/draw.h"
#include "kernels/isa.h"
#include "kernels/planes.h"
#include "kernels/score.h"
#include "kernels/select.h"

namespace attndb::internal {
namespace {

using planner::GroupNanos;
using planner::kBaseGroups;
using planner::MachineConstants;

constexpr size_t kDim = 128;  // MachineConstants are of such rows, of 16 bits.
static_assert(kDim == static_cast<size_t>(planner::kBaseChannels));
constexpr size_t kRowBytes = 2 * kDim;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kMinBytes = 8 * kMiB;
constexpr uint64_t kMaxBytes = 256 * kMiB;
constexpr size_t kMaxGroup = kBaseGroups.back();
constexpr uint32_t kScanBits[] = {8, 4};
constexpr size_t kTokens = 32768;         // Tokens of one measurement of a kernel.
constexpr size_t kRows = 8192;            // Rows of one measurement of rows at random places.
constexpr uint64_t kHeadTokens = 131072;  // Tokens of the head that rows are taken from.
constexpr size_t kFewTokens = 4096;       // Tokens of a search with few tokens.
constexpr int kPasses = 3;
constexpr double kSampledShare = 16;  // The share of auto(error=0.01).
constexpr uint64_t kDrawnRows = 800;
constexpr size_t kTile = 1024;

// The buffer, and the other arguments of kernels.
class Bench {
 public:
  explicit Bench(AlignedBuffer data) : data_(std::move(data)), random_(17) {
    // Rows of finite values of either type of 16 bits, and planes of any codes.
    const uint64_t pattern = 0x3c003800bc00b400;
    for (size_t i = 0; i + sizeof(pattern) <= data_.size(); i += sizeof(pattern)) {
      std::memcpy(data_.data() + i, &pattern, sizeof(pattern));
    }
    q_.assign(kMaxGroup * kDim, 0.01f);
    codes_.assign(kDim, 1);
    scores_.resize(kMaxGroup * kTokens);
    for (float& score : scores_) score = Normal();
    out_.resize(kMaxGroup * kDim);
    max_.resize(kMaxGroup);
    indices_.resize(kTokens + kernels::kSelectSlack);
    weights_.resize(kTokens);
  }

  double OneThread() {
    return Best([&] { sink_ ^= kernels::XorWords(data_.data(), Words()); },
                static_cast<double>(Words()));
  }

  double AllThreads(uint32_t num_threads) {
    ThreadPool pool(num_threads);
    const size_t share = Words() / num_threads / 64 * 64;
    std::vector<uint64_t> sums(num_threads);
    const double per_byte = Best(
        [&] {
          pool.ParallelFor(num_threads, [&](uint32_t part) {
            sums[part] = kernels::XorWords(data_.data() + part * share, share);
          });
        },
        static_cast<double>(share * num_threads));
    for (const uint64_t sum : sums) sink_ ^= sum;
    return per_byte;
  }

  GroupNanos Attend() {
    return ForGroups([&](size_t group) {
      const size_t n = TokensOf(2 * kRowBytes);
      const auto* const k = Next(n * 2 * kRowBytes);
      kernels::InitStates(States(), group, kDim);
      return Best(
          [&] {
            kernels::AttendRows(RowsAt(k), RowsAt(k + n * kRowBytes), 0, n, q_.data(), kDim, group,
                                {0.1f}, States());
          },
          static_cast<double>(n), 1);
    });
  }

  GroupNanos Score() {
    return ForGroups([&](size_t group) {
      const size_t n = TokensOf(kRowBytes);
      const auto* const k = Next(n * kRowBytes);
      return Best(
          [&] {
            kernels::ScoreRows(RowsAt(k), n, q_.data(), kDim, group, scores_.data(), kTokens);
          },
          static_cast<double>(n), 1);
    });
  }

  GroupNanos Scan(uint32_t bits) {
    return ForGroups([&](size_t group) {
      const size_t n = TokensOf(kRowBytes);
      const auto* const bytes = reinterpret_cast<const uint8_t*>(Next(n * kRowBytes));
      const size_t plane_bytes = n * kDim / 2;
      const kernels::PlanesView view = {bytes, bytes + plane_bytes,
                                        reinterpret_cast<const uint16_t*>(bytes + 2 * plane_bytes),
                                        kDim};
      const std::vector<kernels::PlaneQuery> queries(
          group, {.codes = codes_.data(), .scale = 0.01f, .code_sum = kDim});
      return Best(
          [&] {
            kernels::ScanPlanes(view, static_cast<int>(bits), 0, n, queries.data(), group,
                                scores_.data(), kTokens);
          },
          static_cast<double>(n), 1);
    });
  }

  // The time for one q head to find a threshold for some of `n` tokens, and to draw by it.
  double Choose(size_t n) {
    for (size_t i = 0; i < n; ++i) scores_[i] = Normal();
    const attention::DrawNoise noise(kDrawnRows);
    return Best(
        [&] {
          const size_t num_sampled = n / static_cast<size_t>(kSampledShare);
          std::copy_n(scores_.data(), num_sampled, weights_.data());
          const float threshold = attention::FindThresholdOfScores(
              weights_.data(), num_sampled, {1.0f}, kSampledShare, kDrawnRows);
          kernels::KeptTokens kept = {indices_.data(), weights_.data(), scores_.data() + kTokens};
          for (size_t i = 0; i < n; i += kTile) {
            kernels::KeepTokens({{1.0f}, &threshold}, scores_.data() + i, 0, 1,
                                std::min(kTile, n - i), noise.From(i), static_cast<uint32_t>(i),
                                &kept);
          }
          sink_ ^= kept.count;
        },
        1.0);
  }

  // In the order of tokens, as draws and searches give them.
  double Row() {
    PickRows(std::min<uint64_t>(kHeadTokens, data_.size() / kRowBytes), /*ascending=*/true);
    kernels::InitStates(States(), 1, kDim);
    return Best(
        [&] {
          kernels::AttendScored(scores_.data(), 0, 1, RowsAt(data_.data()), indices_.data(), kRows,
                                {0.1f}, States());
        },
        static_cast<double>(kRows), 1);
  }

  double Hop() {
    PickRows(data_.size() / kRowBytes, /*ascending=*/false);
    uint64_t wait = 0;
    const double nanos = Best(
        [&] {
          for (size_t i = 0; i < kRows; ++i) {
            // The next address depends on the last read, which returns the pattern's 0 bits.
            wait = *reinterpret_cast<const uint8_t*>(data_.data() + indices_[i] * kRowBytes + wait);
            wait &= 0x7;
          }
        },
        static_cast<double>(kRows), 1);
    sink_ ^= wait;
    return nanos;
  }

  uint64_t sink() const { return sink_; }  // Reading the sink forces the compiler to do the work.

 private:
  // The number of tokens with this many bytes that fit.
  size_t TokensOf(size_t bytes) const { return std::min(kTokens, data_.size() / 2 / bytes); }
  size_t Words() const { return data_.size() / 64 * 64; }
  float Normal() {
    // Twelve uniform numbers: near enough, and light tails do no harm.
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random_.NextDouble();
    return static_cast<float>(sum);
  }
  // The next piece of the buffer, which was used longest ago.
  const std::byte* Next(size_t bytes) {
    if (next_ + bytes > data_.size()) next_ = 0;
    const std::byte* const piece = data_.data() + next_;
    next_ += bytes;
    return piece;
  }
  // Chooses rows at random among num_rows, ascending or not.
  void PickRows(uint64_t num_rows, bool ascending) {
    for (size_t i = 0; i < kRows; ++i) {
      indices_[i] = static_cast<uint32_t>(random_.Uniform(num_rows));
    }
    if (ascending) std::sort(indices_.begin(), indices_.begin() + kRows);
  }
  static kernels::RowsView RowsAt(const std::byte* data) {
    return {data, kDim, kDim, DType::kFloat16};
  }
  kernels::StateRows States() { return {max_.data(), sum_.data(), out_.data(), kDim}; }

  // Nanoseconds for each of `count`, in the best of some passes. What must not be in a cache is
  // measured once.
  template <typename Fn>
  static double Best(const Fn& fn, double count, int passes = kPasses) {
    double best = 0;
    for (int i = 0; i < passes; ++i) {
      const int64_t start = SteadyNowNanos();
      fn();
      const auto nanos = static_cast<double>(SteadyNowNanos() - start);
      best = i == 0 ? nanos : std::min(best, nanos);
    }
    return std::max(best, 1.0) / count;
  }

  // The best of two, over different memory.
  template <typename Fn>
  static GroupNanos ForGroups(const Fn& measure) {
    GroupNanos nanos;
    for (size_t i = 0; i < kBaseGroups.size(); ++i) {
      nanos[i] = measure(kBaseGroups[i]);
      nanos[i] = std::min(nanos[i], measure(kBaseGroups[i]));
    }
    return nanos;
  }

  AlignedBuffer data_;
  Random random_;
  size_t next_ = 0;
  uint64_t sink_ = 0;
  std::vector<float> q_;
  std::vector<int8_t> codes_;  // Codes of every q row.
  std::vector<float> scores_;
  std::vector<float> weights_;
  std::vector<float> out_;
  std::vector<float> max_;
  std::vector<float> sum_ = std::vector<float>(kMaxGroup);
  std::vector<uint32_t> indices_;
};

// The rest of the line of /proc/cpuinfo that begins with "model name".
std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    const size_t begin = line.find_first_not_of(" \t:", line.find(':'));
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace

MachineConstants DefaultMachine() {
  MachineConstants machine;
  machine.cpu = CpuModel();
  machine.isa = kernels::IsaName(kernels::CurrentIsa().used);
  machine.num_threads = NumCores();
  return machine;
}

uint64_t MeasuredBytes() {
  const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const uint64_t wanted = cache > 0 ? 4 * static_cast<uint64_t>(cache) : 128 * kMiB;
  return std::clamp(wanted, kMinBytes, kMaxBytes);
}

Result<MachineConstants> MeasureMachine(uint64_t buffer_bytes) {
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer data,
                          AlignedBuffer::Allocate(std::max(buffer_bytes, kMinBytes)));
  Bench bench(std::move(data));
  MachineConstants machine = DefaultMachine();
  machine.one_bytes_per_ns = 1.0 / bench.OneThread();
  machine.all_bytes_per_ns =
      std::max(machine.one_bytes_per_ns, 1.0 / bench.AllThreads(machine.num_threads));
  machine.attend = bench.Attend();
  machine.score = bench.Score();
  machine.scans.clear();
  for (const uint32_t bits : kScanBits) machine.scans.push_back({bits, bench.Scan(bits)});
  const double few = bench.Choose(kFewTokens);
  const double many = bench.Choose(kTokens);
  machine.select = std::max(0.0, many - few) / static_cast<double>(kTokens - kFewTokens);
  machine.head = std::max(0.0, few - machine.select * static_cast<double>(kFewTokens));
  machine.row = bench.Row();
  machine.hop = bench.Hop();
  machine.measured = true;
  return machine;
}

}  // namespace attndb::internal
