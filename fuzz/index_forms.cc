#include "fuzz/index_forms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/check.h"
#include "common/random.h"
#include "index/clustered/clustered_keys.h"
#include "index/graph/graph_index.h"
#include "index/graph/head_graphs.h"
#include "index/key_index.h"
#include "index/key_search_test_util.h"
#include "kernels/convert.h"

namespace attndb::fuzz {
namespace {

constexpr size_t kNumKeys = 300;
constexpr size_t kNumQueries = 120;
constexpr size_t kDim = 16;
constexpr uint32_t kGroup = 3;

class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint32_t Next(size_t num_bytes) {
    uint32_t value = 0;
    for (size_t i = 0; i < num_bytes; ++i) {
      const uint32_t byte = next_ < bytes_.size() ? bytes_[next_++] : 0;
      value |= byte << 8 * i;
    }
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t next_ = 0;
};

// Rows of float32 near a few directions.
AlignedBuffer Rows(size_t count, uint64_t seed) {
  Random random(seed);
  AlignedBuffer buffer = *AlignedBuffer::AllocateZeroed(count * kDim * sizeof(float) + 64);
  auto* const rows = reinterpret_cast<float*>(buffer.data());
  for (size_t i = 0; i < count * kDim; ++i) {
    const float topic = (i / kDim + i % kDim) % 7 == 0 ? 3.0f : 0.0f;
    rows[i] = topic + static_cast<float>(random.NextGaussian());
  }
  return buffer;
}

// Keys, training queries, and q rows that look for them.
struct Head {
  AlignedBuffer keys = Rows(kNumKeys, 1);
  AlignedBuffer train = Rows(kNumQueries, 2);
  AlignedBuffer q = Rows(kGroup, 3);
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> heads;

  Head() {
    for (uint32_t i = 0; i < kNumQueries; ++i) {
      tokens.push_back(i * uint32_t{kNumKeys} / uint32_t{kNumQueries});
      heads.push_back(i % kGroup);
    }
  }

  kernels::RowsView view() const { return {keys.data(), kDim, kDim, DType::kFloat32}; }
  storage::QueryRows queries() const { return {train.data(), tokens, heads}; }
  const float* q_row(size_t r) const { return reinterpret_cast<const float*>(q.data()) + r * kDim; }
  double Score(size_t key, size_t r) const {
    const float* const k = reinterpret_cast<const float*>(keys.data()) + key * kDim;
    double sum = 0;
    for (size_t d = 0; d < kDim; ++d) sum += double{k[d]} * double{q_row(r)[d]};
    return sum;
  }
};

const Head& TheHead() {
  static const Head kHead;
  return kHead;
}

AlignedBuffer Copy(std::span<const std::byte> bytes) {
  AlignedBuffer copy = *AlignedBuffer::Allocate(bytes.size());
  std::ranges::copy(bytes, copy.data());
  return copy;
}

void Edit(Input* input, std::span<AlignedBuffer* const> parts) {
  const uint32_t num_edits = input->Next(1) % 16;
  for (uint32_t i = 0; i < num_edits; ++i) {
    const std::span<std::byte> part = parts[input->Next(1) % parts.size()]->span();
    const size_t at = input->Next(3) % part.size();
    part[at] = static_cast<std::byte>(input->Next(1));
  }
}

void CheckFound(const index::IndexRun& run, size_t row, const index::FoundKeys& found) {
  std::vector<bool> seen(kNumKeys);
  for (size_t i = 0; i < found.count; ++i) {
    const uint32_t key = found.tokens[i];
    ATTNDB_CHECK(key >= run.first_visible && key < run.num_visible);
    ATTNDB_CHECK(!seen[key]);
    seen[key] = true;
    ATTNDB_CHECK(std::abs(double{found.scores[i]} - TheHead().Score(key, row)) < 1e-2);
  }
}

void Search(Input* input, const index::KeyIndex& index) {
  const Head& head = TheHead();
  index::IndexCall call;
  call.spec.kind = input->Next(1) % 2 == 0 ? index::SearchKind::kTopK : index::SearchKind::kRange;
  call.spec.k = 1 + input->Next(2) % 400;
  call.spec.beta = static_cast<float>(input->Next(1));
  call.spec.effort = static_cast<float>(input->Next(1));
  index::IndexRun run = {.index = &index, .keys = head.view()};
  run.first_visible = input->Next(2) % kNumKeys;
  run.num_visible = run.first_visible + 1 + input->Next(2) % (kNumKeys - run.first_visible);
  call.runs = {&run, 1};
  call.q = head.q_row(0);
  call.q_stride = kDim;
  call.num_q_rows = kGroup;
  const std::vector<float> best(kGroup, -std::numeric_limits<float>::infinity());
  call.best = best.data();
  constexpr size_t kRoom = kNumKeys + 64;
  std::vector<uint32_t> tokens(kGroup * kRoom);
  std::vector<float> scores(kGroup * kRoom);
  std::vector<index::FoundKeys> found;
  for (size_t r = 0; r < kGroup; ++r) {
    found.push_back({tokens.data() + r * kRoom, scores.data() + r * kRoom, 0});
  }
  AlignedBuffer scratch = *AlignedBuffer::Allocate(index.ScratchBytes(call) + 64);
  index::SearchCost cost;
  ATTNDB_CHECK(index::test::SearchInMemory(call, scratch.data(), found.data(), &cost).ok());
  for (size_t r = 0; r < kGroup; ++r) CheckFound(run, r, found[r]);
}

index::GraphSource TheSource() {
  return {.keys = TheHead().view(), .num_keys = kNumKeys, .queries = TheHead().queries()};
}

bool FuzzGraphForm(const index::GraphIndex& built, std::span<const uint8_t> input) {
  AlignedBuffer bytes = Copy(built.bytes());
  Input in(input);
  AlignedBuffer* const parts[] = {&bytes};
  Edit(&in, parts);
  const Result<index::GraphIndex> read =
      index::GraphIndex::Parse(bytes.span(), {kNumKeys, kDim, DType::kFloat32}, "fuzzed");
  if (!read.ok()) return false;
  Search(&in, *read);
  return true;
}

}  // namespace

bool FuzzClusters(std::span<const uint8_t> input) {
  static const index::ClusteredKeys kBuilt = [] {
    index::PlaneSource source;
    source.keys = TheHead().view();
    source.num_keys = kNumKeys;
    source.queries = TheHead().queries();
    return *index::ClusteredKeys::Build(source);
  }();
  AlignedBuffer planes = Copy(kBuilt.parts().planes);
  AlignedBuffer order = Copy(kBuilt.parts().order);
  Input in(input);
  AlignedBuffer* const parts[] = {&planes, &order};
  Edit(&in, parts);
  const Result<index::ClusteredKeys> read =
      index::ClusteredKeys::Parse({planes.span(), order.span()}, {kNumKeys, kDim}, "fuzzed");
  if (!read.ok()) return false;
  Search(&in, *read);
  return true;
}

bool FuzzGraph(std::span<const uint8_t> input) {
  static const index::GraphIndex kBuilt =
      *index::GraphIndex::Build(TheSource(), {.keys_per_query = 20});
  return FuzzGraphForm(kBuilt, input);
}

bool FuzzHeadGraphs(std::span<const uint8_t> input) {
  static const index::HeadGraphs kBuilt =
      *index::HeadGraphs::Build(TheSource(), kGroup, [](const index::GraphSource& source) {
        return index::GraphIndex::Build(source, {.keys_per_query = 20});
      });
  AlignedBuffer bytes = Copy(kBuilt.bytes());
  Input in(input);
  AlignedBuffer* const parts[] = {&bytes};
  Edit(&in, parts);
  const Result<index::HeadGraphs> read =
      index::HeadGraphs::Parse(bytes.span(), {kNumKeys, kDim, DType::kFloat32}, kGroup, "fuzzed");
  if (!read.ok()) return false;
  Search(&in, *read);
  return true;
}

bool FuzzRoarGraph(std::span<const uint8_t> input) {
  // Slots of 80 bytes: version 2.
  static const index::GraphIndex kBuilt =
      *index::GraphIndex::BuildRoar(TheSource(), {.keys_per_query = 60, .search_window = 80});
  ATTNDB_CHECK(kBuilt.view().header.slot_bytes > index::kMaxSlotBytes);
  return FuzzGraphForm(kBuilt, input);
}

}  // namespace attndb::fuzz
