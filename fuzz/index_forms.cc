#include "fuzz/index_forms.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/check.h"
#include "common/random.h"
#include "index/clustered/clustered_keys.h"
#include "index/coarse/block_keys.h"
#include "index/coarse/wave_keys.h"
#include "index/graph/graph_index.h"
#include "index/graph/head_graphs.h"
#include "index/key_index.h"
#include "index/key_search_test_util.h"
#include "index/planes/key_planes.h"
#include "index/pq/pq_index.h"
#include "index/prefill/prefill_ranking.h"
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

void Edit(Input* input, std::span<AlignedBuffer> parts) {
  const uint32_t num_edits = input->Next(1) % 16;
  for (uint32_t i = 0; i < num_edits; ++i) {
    const std::span<std::byte> part = parts[input->Next(1) % parts.size()].span();
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

// What an index answers.
enum class Answers : uint8_t { kTopK, kTopKAndRange };

void Search(Input* input, const index::KeyIndex& index, Answers answers) {
  const Head& head = TheHead();
  index::IndexCall call;
  const bool is_range = input->Next(1) % 2 != 0 && answers == Answers::kTopKAndRange;
  call.spec.kind = is_range ? index::SearchKind::kRange : index::SearchKind::kTopK;
  call.spec.logit.scale = 0.25f;
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

// Changes the bytes of a form's parts that a build made, and gives what `parse`, which makes a
// Result of the parts, lets through to `use`.
template <typename Parse, typename Use>
bool FuzzParts(std::initializer_list<std::span<const std::byte>> built,
               std::span<const uint8_t> input, const Parse& parse, const Use& use) {
  std::vector<AlignedBuffer> parts;
  for (const std::span<const std::byte> bytes : built) parts.push_back(Copy(bytes));
  Input in(input);
  Edit(&in, parts);
  const auto read = parse(parts);
  if (!read.ok()) return false;
  use(&in, *read);
  return true;
}

// The same of one part, an index, which is searched.
template <typename Parse>
bool FuzzForm(std::span<const std::byte> built, std::span<const uint8_t> input, Answers answers,
              const Parse& parse) {
  return FuzzParts(
      {built}, input, [&](const auto& parts) { return parse(parts[0].span()); },
      [&](Input* in, const index::KeyIndex& index) { Search(in, index, answers); });
}

index::GraphSource TheSource() {
  return {.keys = TheHead().view(), .num_keys = kNumKeys, .queries = TheHead().queries()};
}

index::PlaneSource ThePlaneSource() {
  index::PlaneSource source;
  source.keys = TheHead().view();
  source.num_keys = kNumKeys;
  source.queries = TheHead().queries();
  return source;
}

bool FuzzGraphForm(const index::GraphIndex& built, std::span<const uint8_t> input) {
  return FuzzForm(built.bytes(), input, Answers::kTopKAndRange, [](auto bytes) {
    return index::GraphIndex::Parse(bytes, {kNumKeys, kDim, DType::kFloat32}, "fuzzed");
  });
}

index::BlockKeys BuildBlocks(const index::BlockForm& form) {
  return *index::BlockKeys::Build(
      {.keys = TheHead().view(), .num_keys = kNumKeys, .queries = TheHead().queries()}, form);
}

bool FuzzBlocks(const index::BlockKeys& built, std::span<const uint8_t> input) {
  return FuzzForm(built.bytes(), input, Answers::kTopK, [&built](auto bytes) {
    return index::BlockKeys::Parse(bytes, built.shape(), "fuzzed");
  });
}

// Scores the keys of some blocks and bounds their errors: of changed planes both may be anything.
void Scan(Input* input, const index::KeyPlanes& planes) {
  constexpr size_t kNumBlocks = (kNumKeys + kernels::kWeightBlock - 1) / kernels::kWeightBlock;
  AlignedBuffer spare = *AlignedBuffer::Allocate(kDim * sizeof(float));
  AlignedBuffer codes = *AlignedBuffer::Allocate(index::QueryCodeBytes(kDim));
  const index::EstimateQuery query =
      planes.Prepare(TheHead().q_row(input->Next(1) % kGroup),
                     reinterpret_cast<float*>(spare.data()), codes.data());
  const uint32_t bits = input->Next(1) % 2 == 0 ? 4 : 8;
  const size_t first_block = input->Next(1) % kNumBlocks;
  const size_t num_blocks = 1 + input->Next(1) % (kNumBlocks - first_block);
  const size_t first = first_block * kernels::kWeightBlock;
  const size_t count = std::min(kNumKeys - first, num_blocks * kernels::kWeightBlock);
  std::vector<float> scores(kNumBlocks * kernels::kWeightBlock);
  planes.Scan(bits, first, count, &query, 1, scores.data(), scores.size());
  std::vector<float> bounds(kNumBlocks);
  planes.ScoreBounds(bits, query, first_block, num_blocks, bounds.data());
  for (size_t i = count; i < scores.size(); ++i) ATTNDB_CHECK(scores[i] == 0.0f);
}

void CheckRanked(Input*, const index::PrefillRanking& ranking) {
  std::vector<bool> seen(kNumKeys);
  for (const uint32_t row : ranking.rows()) {
    ATTNDB_CHECK(row < kNumKeys);
    ATTNDB_CHECK(!seen[row]);
    seen[row] = true;
  }
}

}  // namespace

bool FuzzClusters(std::span<const uint8_t> input) {
  static const index::ClusteredKeys kBuilt = *index::ClusteredKeys::Build(ThePlaneSource());
  return FuzzParts(
      {kBuilt.parts().planes, kBuilt.parts().order}, input,
      [](const auto& parts) {
        return index::ClusteredKeys::Parse({parts[0].span(), parts[1].span()}, {kNumKeys, kDim},
                                           "fuzzed");
      },
      [](Input* in, const index::KeyIndex& index) { Search(in, index, Answers::kTopKAndRange); });
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
  return FuzzForm(kBuilt.bytes(), input, Answers::kTopKAndRange, [](auto bytes) {
    return index::HeadGraphs::Parse(bytes, {kNumKeys, kDim, DType::kFloat32}, kGroup, "fuzzed");
  });
}

bool FuzzRoarGraph(std::span<const uint8_t> input) {
  // Slots of 80 bytes: version 2.
  static const index::GraphIndex kBuilt =
      *index::GraphIndex::BuildRoar(TheSource(), {.keys_per_query = 60, .search_window = 80});
  ATTNDB_CHECK(kBuilt.view().header.slot_bytes > index::kMaxSlotBytes);
  return FuzzGraphForm(kBuilt, input);
}

bool FuzzInfllm(std::span<const uint8_t> input) {
  static const index::BlockKeys kBuilt =
      BuildBlocks({.summary = index::BlockSummary::kRepresentatives,
                   .block_keys = 32,
                   .num_representatives = 4});
  return FuzzBlocks(kBuilt, input);
}

bool FuzzKeyPlanes(std::span<const uint8_t> input) {
  static const index::KeyPlanes kBuilt = *index::KeyPlanes::Build(ThePlaneSource());
  return FuzzParts(
      {kBuilt.parts().main, kBuilt.parts().low}, input,
      [](const auto& parts) {
        return index::KeyPlanes::Parse({parts[0].span(), parts[1].span()}, {kNumKeys, kDim},
                                       "fuzzed");
      },
      Scan);
}

bool FuzzPrefillRanking(std::span<const uint8_t> input) {
  static const index::PrefillRanking kBuilt = *index::PrefillRanking::Build(
      {.keys = TheHead().view(), .num_keys = kNumKeys, .queries = TheHead().queries()});
  return FuzzParts(
      {kBuilt.bytes()}, input,
      [](const auto& parts) {
        return index::PrefillRanking::Parse(parts[0].span(), kNumKeys, "fuzzed");
      },
      CheckRanked);
}

bool FuzzProductCodes(std::span<const uint8_t> input) {
  static const index::PqKeys kBuilt = *index::PqKeys::Build(
      {.keys = TheHead().view(), .num_keys = kNumKeys, .queries = TheHead().queries()},
      {.num_subspaces = 4, .bits = 6});
  return FuzzForm(
      kBuilt.bytes(), input, Answers::kTopKAndRange, [](auto bytes) -> Result<index::PqIndex> {
        ATTNDB_ASSIGN_OR_RETURN(index::PqKeys keys,
                                index::PqKeys::Parse(bytes, {kNumKeys, kDim}, "fuzzed"));
        return index::PqIndex(std::move(keys));
      });
}

bool FuzzQuest(std::span<const uint8_t> input) {
  static const index::BlockKeys kBuilt = BuildBlocks({.block_keys = 16});
  return FuzzBlocks(kBuilt, input);
}

bool FuzzWave(std::span<const uint8_t> input) {
  static const index::WaveKeys kBuilt = *index::WaveKeys::Build(
      {.keys = TheHead().view(), .values = TheHead().view(), .num_keys = kNumKeys}, {});
  return FuzzForm(kBuilt.bytes(), input, Answers::kTopK, [](auto bytes) {
    return index::WaveKeys::Parse(
        bytes, {kNumKeys, kDim, kDim, DType::kFloat32, index::KMeansOptions{}.cluster_keys},
        "fuzzed");
  });
}

}  // namespace attndb::fuzz
