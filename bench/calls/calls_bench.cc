// Question: what does a call of Attend cost beside its arithmetic, and what do two threads gain?
//
// handover: from the call of ThreadPool::ParallelFor to the start of the part that a worker runs,
//           a few microseconds after the last call, and (asleep) after two milliseconds; median of
//           a round's calls.
// short:    an Attend over 64 tokens, which one thread does.
// Others:   an Attend over a stored context, of one layer, by plan and shape (kv heads x q heads of
//           each x channels / tokens). Plans and numbers of threads take turns, step by step. The
//           share of two threads is one thread's time over theirs; `full` by two threads is also
//           compared with what two threads read of as many bytes in the same round.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "bench/calls/call_sessions.h"
#include "bench/kernels/bench_util.h"
#include "bench/median.h"
#include "common/thread_pool.h"
#include "kernels/bandwidth.h"

namespace attndb::bench {
namespace {

constexpr uint32_t kThreads = 2;
constexpr int kHandovers = 200;  // Handovers in a round.
constexpr int kAsleep = 20;      // Handovers in a round that follow 2 ms of sleep.
constexpr int kSteps = 8;        // Steps of one session in a round.
constexpr int kWarmUps = 48;     // `auto` tries heads again after some calls.
constexpr const char* kAuto = "auto(error=0.01)";

// Seconds until both of two parts, which wait for each other, have begun.
double HandOver(ThreadPool* pool) {
  std::array<double, kThreads> begun = {};
  std::atomic<uint32_t> num_begun = 0;
  const double start = Seconds();
  pool->ParallelFor(kThreads, [&](uint32_t part) {
    begun[part] = Seconds();
    num_begun.fetch_add(1);
    while (num_begun.load() < kThreads) {
    }
  });
  return std::ranges::max(begun) - start;
}

void MeasureHandOver(size_t num_rounds, Report* report) {
  ThreadPool pool(kThreads);
  for (size_t round = 0; round < num_rounds; ++round) {
    std::vector<double> soon;
    for (int i = 0; i < kHandovers; ++i) {
      soon.push_back(HandOver(&pool) * 1e6);
      for (const double end = Seconds() + 5e-6; Seconds() < end;) {
      }
    }
    report->Add("handover", "us", Median(soon));
    std::vector<double> asleep;
    for (int i = 0; i < kAsleep; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      asleep.push_back(HandOver(&pool) * 1e6);
    }
    report->Add("handover/asleep", "us", Median(asleep));
  }
}

void MeasureShort(size_t num_rounds, Report* report) {
  CallSessions sessions({.num_kv_heads = 3, .group_size = 3, .head_dim = 64, .num_tokens = 64});
  const size_t session = sessions.Open("full", 1);
  for (size_t round = 0; round < num_rounds; ++round) {
    std::vector<double> seconds;
    for (int i = 0; i < kHandovers; ++i) seconds.push_back(sessions.Step(session) * 1e6);
    report->Add("short", "us", Median(seconds));
  }
}

// Bytes per second that the pool's threads read together.
double Read(ThreadPool* pool, const Buffer& buffer, uint64_t num_bytes) {
  const uint64_t share = num_bytes / kThreads / 64 * 64;
  std::array<uint64_t, kThreads> sums = {};
  const double start = Seconds();
  pool->ParallelFor(kThreads, [&](uint32_t part) {
    sums[part] = kernels::XorWords(buffer.data() + part * share, share);
  });
  const double seconds = Seconds() - start;
  sink = sink + sums[0] + sums[1];
  return static_cast<double>(kThreads * share) / seconds;
}

class ShapeBench {
 public:
  ShapeBench(const CallShape& shape, Report* report)
      : shape_(shape),
        report_(*report),
        sessions_(shape),
        buffer_(kCallLayers * shape.LayerBytes()),
        pool_(kThreads) {
    FillNormal(&buffer_, DType::kFloat16, 5);
    for (const char* const plan : {"full", kAuto}) {
      for (const uint32_t num_threads : {1u, kThreads}) sessions_.Open(plan, num_threads);
    }
    for (int i = 0; i < kWarmUps; ++i) {
      for (size_t session = 0; session < 4; ++session) sessions_.Step(session);
    }
  }

  std::string Name(const char* plan, uint32_t num_threads) const {
    return std::string(plan) + "/" + shape_.Name() + "/threads" + std::to_string(num_threads);
  }

  void Round() {
    std::array<std::vector<double>, 4> seconds;
    std::vector<double> read;
    for (int i = 0; i < kSteps; ++i) {
      for (size_t session = 0; session < 4; ++session) {
        seconds[session].push_back(sessions_.Step(session));
      }
      read.push_back(Read(&pool_, buffer_, buffer_.size()));
    }
    std::array<double, 4> median;
    for (size_t session = 0; session < 4; ++session) median[session] = Median(seconds[session]);
    for (size_t plan = 0; plan < 2; ++plan) {
      const char* const name = plan == 0 ? "full" : "auto";
      report_.Add(Name(name, 1), "us", median[2 * plan] * 1e6);
      report_.Add(Name(name, kThreads), "us", median[2 * plan + 1] * 1e6);
      report_.AddShare(Name(name, kThreads), median[2 * plan] / median[2 * plan + 1]);
    }
    const double full = static_cast<double>(shape_.LayerBytes()) / median[1];
    report_.Add("bytes/" + Name("full", kThreads), "GB/s", full * 1e-9);
    report_.AddShare("bytes/" + Name("full", kThreads), full / Median(read));
  }

 private:
  const CallShape shape_;
  Report& report_;
  CallSessions sessions_;
  Buffer buffer_;
  ThreadPool pool_;
};

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  Report report("calls: hand-over, and one thread against two", options);
  MeasureHandOver(options.num_rounds, &report);
  MeasureShort(options.num_rounds, &report);
  std::map<std::string, double> aims;
  for (const uint64_t num_tokens : {8192u, 32768u}) {
    for (const CallShape& shape :
         {CallShape{3, 3, 64, num_tokens}, CallShape{8, 4, 128, num_tokens}}) {
      ShapeBench bench(shape, &report);
      for (size_t round = 0; round < options.num_rounds; ++round) bench.Round();
      aims["bytes/" + bench.Name("full", kThreads)] = 0.9;
      aims[bench.Name("auto", kThreads)] = shape.num_kv_heads == 3 ? 1.5 : 1.8;
    }
  }
  report.Finish(aims);
  return 0;
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
