// Goal:   a tail holds exactly what was appended, forks never see each other, memory stays bounded.
// Method: random appends, crops, forks and resets against a model of plain vectors; budgets that
//         run out; the 1.2 of the contract at every length.
// Replay: ATTNDB_SEED=17 ctest -R storage_test
#include "storage/kv/kv_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "common/random.h"
#include "storage/kv/kv_layout.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

constexpr uint64_t kPlenty = uint64_t{1} << 30;

std::shared_ptr<const KvShape> Shape(KvShape shape) {
  return std::make_shared<const KvShape>(std::move(shape));
}

// Layers of unequal shape.
std::shared_ptr<const KvShape> MixedShape() {
  return Shape({.dtype = DType::kFloat16,
                .layers = {{.num_kv_heads = 2, .head_dim = 16, .v_head_dim = 32},
                           {.num_kv_heads = 1, .head_dim = 40, .v_head_dim = 8},
                           {.num_kv_heads = 3, .head_dim = 16, .v_head_dim = 16}}});
}

// A row that identifies itself: `value` xor its place in the layer, over and over.
void FillRow(uint64_t value, uint32_t head, char which, uint64_t row_bytes, std::byte* row) {
  const uint64_t word = value * 0x9e3779b97f4a7c15u ^ (head * 2u + (which == 'k' ? 0u : 1u));
  for (uint64_t i = 0; i < row_bytes; i += sizeof(word)) std::memcpy(row + i, &word, sizeof(word));
}

bool IsRow(uint64_t value, uint32_t head, char which, uint64_t row_bytes, const std::byte* row) {
  std::vector<std::byte> expected(row_bytes);
  FillRow(value, head, which, row_bytes, expected.data());
  return std::memcmp(row, expected.data(), row_bytes) == 0;
}

void FillPiece(const AppendPiece& piece, const KvShape& shape, LayerId layer,
               std::span<const uint64_t> values) {
  for (uint64_t row = 0; row < piece.num_rows; ++row) {
    const uint64_t value = values[piece.first_row + row];
    for (uint32_t head = 0; head < shape.layers[layer].num_kv_heads; ++head) {
      const uint64_t k_bytes = KRowBytes(shape, layer), v_bytes = VRowBytes(shape, layer);
      FillRow(value, head, 'k', k_bytes, piece.k(head) + row * k_bytes);
      FillRow(value, head, 'v', v_bytes, piece.v(head) + row * v_bytes);
    }
  }
}

Status Append(KvTail* tail, LayerId layer, std::span<const uint64_t> values) {
  ATTNDB_ASSIGN_OR_RETURN(const AppendSlot slot, tail->BeginAppend(layer, values.size()));
  uint64_t next = 0;
  for (const AppendPiece& piece : slot.pieces) {
    EXPECT_EQ(piece.first_row, next);
    next += piece.num_rows;
    FillPiece(piece, tail->shape(), layer, values);
  }
  EXPECT_EQ(next, values.size());
  tail->CommitAppend(layer);
  return Status::Ok();
}

void ExpectHead(const KvTail& tail, LayerId layer, uint32_t head,
                std::span<const uint64_t> values) {
  const uint64_t k_bytes = KRowBytes(tail.shape(), layer), v_bytes = VRowBytes(tail.shape(), layer);
  uint64_t token = 0;
  for (const KvRows& run : tail.runs(layer, head)) {
    ASSERT_EQ(reinterpret_cast<uintptr_t>(run.k) % kBufferAlignment, 0u);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(run.v) % kBufferAlignment, 0u);
    ASSERT_GT(run.num_tokens, 0u);
    for (uint64_t row = 0; row < run.num_tokens; ++row, ++token) {
      ASSERT_LT(token, values.size());
      ASSERT_TRUE(IsRow(values[token], head, 'k', k_bytes, run.k + row * k_bytes)) << token;
      ASSERT_TRUE(IsRow(values[token], head, 'v', v_bytes, run.v + row * v_bytes)) << token;
    }
  }
  ASSERT_EQ(token, values.size());
}

// The model: the values appended to each layer of a tail.
using Model = std::vector<std::vector<uint64_t>>;

void ExpectTail(const KvTail& tail, const Model& model) {
  uint64_t least = UINT64_MAX;
  for (LayerId layer = 0; layer < model.size(); ++layer) {
    ASSERT_EQ(tail.num_tokens(layer), model[layer].size());
    least = std::min<uint64_t>(least, model[layer].size());
    for (uint32_t head = 0; head < tail.shape().layers[layer].num_kv_heads; ++head) {
      ExpectHead(tail, layer, head, model[layer]);
    }
  }
  ASSERT_EQ(tail.num_tokens(), least);
}

std::vector<uint64_t> Values(uint64_t num_values, Random* random) {
  std::vector<uint64_t> values(num_values);
  for (uint64_t& value : values) value = random->Next();
  return values;
}

struct Tracked {
  std::unique_ptr<KvTail> tail;
  Model model;
};

// One random change to one of the tails and to its model.
void Step(std::vector<Tracked>* tails, Random* random) {
  const size_t index = random->Uniform(tails->size());
  KvTail* const tail = (*tails)[index].tail.get();
  Model* const model = &(*tails)[index].model;
  switch (random->Uniform(13)) {
    case 0: {  // Crop, now and then to nothing.
      const uint64_t keep = random->OneIn(8) ? 0 : random->Uniform(tail->num_tokens() + 20);
      tail->Crop(keep);
      for (auto& layer : *model) layer.resize(std::min<uint64_t>(layer.size(), keep));
      break;
    }
    case 1:
      if (tails->size() < 5) {
        tails->push_back({std::make_unique<KvTail>(tail->Fork()), *model});
      } else {
        tails->erase(tails->begin() + static_cast<std::ptrdiff_t>(index));
      }
      break;
    case 2: {  // Room that is asked for and not used; what lies there must not show.
      ATTNDB_ASSERT_OK_AND_ASSIGN(const AppendSlot slot,
                                  tail->BeginAppend(0, random->Uniform(600)));
      for (const AppendPiece& piece : slot.pieces) {
        std::memset(piece.k(0), 0xee, piece.num_rows * KRowBytes(tail->shape(), 0));
      }
      break;
    }
    case 3:
      for (LayerId layer = 0; layer < model->size(); ++layer) {
        if (!tail->CanJoin(layer) || random->OneIn(3)) continue;
        ATTNDB_ASSERT_OK(tail->Join(layer));
      }
      break;
    case 4: {  // Durable tokens leave.
      const uint64_t num_first = random->Uniform(tail->num_tokens() + 1);
      ATTNDB_ASSERT_OK(tail->DropFirst(num_first));
      for (auto& layer : *model) {
        layer.erase(layer.begin(), layer.begin() + static_cast<ptrdiff_t>(num_first));
      }
      break;
    }
    default: {  // A token as in decoding, or a batch as in prefill.
      const uint64_t num_values = random->OneIn(4)    ? random->Uniform(700)
                                  : random->OneIn(16) ? 4000 + random->Uniform(200)
                                                      : 1 + random->Uniform(3);
      for (LayerId layer = 0; layer < model->size(); ++layer) {
        const std::vector<uint64_t> values = Values(num_values, random);
        ATTNDB_ASSERT_OK(Append(tail, layer, values));
        (*model)[layer].insert((*model)[layer].end(), values.begin(), values.end());
      }
    }
  }
}

TEST(KvTail, EqualsItsModelOverRandomAppendsCropsAndForks) {
  Random random(test::SeedOr(30));
  MemoryBudget budget(kPlenty);
  std::vector<Tracked> tails;
  tails.push_back({std::make_unique<KvTail>(MixedShape(), &budget), Model(3)});
  for (int i = 0; i < 400; ++i) {
    Step(&tails, &random);
    for (const Tracked& tracked : tails) {
      ExpectTail(*tracked.tail, tracked.model);
      if (::testing::Test::HasFatalFailure()) FAIL() << "step " << i;
    }
  }
  tails.clear();
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(KvTail, LayersMayDifferInLengthInsideAStep) {
  Random random(test::SeedOr(31));
  MemoryBudget budget(kPlenty);
  KvTail tail(MixedShape(), &budget);
  Model model(3);
  for (LayerId layer = 0; layer < 3; ++layer) {
    model[layer] = Values(300, &random);
    ATTNDB_ASSERT_OK(Append(&tail, layer, model[layer]));
    EXPECT_EQ(tail.num_tokens(), layer == 2 ? 300u : 0u);
  }
  ExpectTail(tail, model);
}

TEST(KvTail, MemoryStaysWithinOnePointTwoTimesItsKv) {
  Random random(test::SeedOr(32));
  for (const uint64_t batch : {1u, 7u, 100u}) {
    MemoryBudget budget(kPlenty);
    const auto shape = Shape({.dtype = DType::kFloat16,
                              .layers = {{.num_kv_heads = 1, .head_dim = 16, .v_head_dim = 16}}});
    KvTail tail(shape, &budget);
    const uint64_t token_bytes = BytesPerToken(*shape);
    for (uint64_t num_tokens = batch; num_tokens < 5000; num_tokens += batch) {
      ATTNDB_ASSERT_OK(Append(&tail, 0, Values(batch, &random)));
      const auto allowed = static_cast<double>(token_bytes * num_tokens) * 1.2 +
                           static_cast<double>(16 * token_bytes);
      ASSERT_LE(static_cast<double>(tail.memory_bytes()), allowed) << num_tokens;
      ASSERT_EQ(tail.memory_bytes(), budget.used_bytes());
    }
  }
}

TEST(KvTail, JoinedTokensAreOneRunAndStayWhateverBecomesOfTheTail) {
  Random random(test::SeedOr(37));
  MemoryBudget budget(kPlenty);
  KvTail tail(MixedShape(), &budget);
  Model model(3);
  model[0] = Values(9000, &random);
  ATTNDB_ASSERT_OK(Append(&tail, 0, model[0]));
  const std::vector<uint64_t> second(model[0].begin() + 4096, model[0].begin() + 8192);
  ATTNDB_ASSERT_OK(tail.Join(0));
  ATTNDB_ASSERT_OK(tail.Join(0));
  EXPECT_FALSE(tail.CanJoin(0));
  ASSERT_EQ(tail.num_joined(0), 2u);
  ASSERT_EQ(tail.runs(0, 1).size(), 2u + 4u);
  EXPECT_EQ(tail.runs(0, 1)[1].num_tokens, 4096u);
  ExpectTail(tail, model);
  EXPECT_EQ(tail.memory_bytes(), budget.used_bytes());

  const JoinedTokens held = tail.joined(0, 1);
  tail.Crop(5000);
  EXPECT_EQ(tail.num_joined(0), 1u);
  model[0].resize(5000);
  ExpectTail(tail, model);
  const std::vector<uint64_t> more = Values(3500, &random);
  ATTNDB_ASSERT_OK(Append(&tail, 0, more));
  model[0].insert(model[0].end(), more.begin(), more.end());
  ExpectTail(tail, model);
  ATTNDB_ASSERT_OK(tail.Join(0));
  ExpectTail(tail, model);
  tail.Reset();
  const uint64_t k_bytes = KRowBytes(tail.shape(), 0);
  for (uint64_t row = 0; row < second.size(); ++row) {
    ASSERT_TRUE(IsRow(second[row], 1, 'k', k_bytes, held.rows[1].k + row * k_bytes)) << row;
  }
}

TEST(KvTail, AJoinThatHasNoMemoryChangesNothing) {
  Random random(test::SeedOr(38));
  const auto shape = MixedShape();
  MemoryBudget budget(5000 * LayerBytesPerToken(*shape, 0));
  KvTail tail(shape, &budget);
  Model model(3);
  model[0] = Values(4500, &random);
  ATTNDB_ASSERT_OK(Append(&tail, 0, model[0]));
  EXPECT_THAT(tail.Join(0),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("tail of layer 0")));
  EXPECT_EQ(tail.num_joined(0), 0u);
  EXPECT_TRUE(tail.CanJoin(0));
  ExpectTail(tail, model);
}

TEST(KvTail, AForkCostsNothingUntilItWrites) {
  Random random(test::SeedOr(33));
  MemoryBudget budget(kPlenty);
  KvTail tail(MixedShape(), &budget);
  for (LayerId layer = 0; layer < 3; ++layer) {
    ATTNDB_ASSERT_OK(Append(&tail, layer, Values(1000, &random)));
  }
  const uint64_t before = budget.used_bytes();
  KvTail fork = tail.Fork();
  EXPECT_EQ(budget.used_bytes(), before);
  EXPECT_EQ(fork.memory_bytes(), tail.memory_bytes());
  ATTNDB_ASSERT_OK(Append(&fork, 0, Values(1, &random)));
  // Only the partly filled last block was copied.
  EXPECT_LE(budget.used_bytes() - before,
            KvTail::kBlockTokens * LayerBytesPerToken(fork.shape(), 0));
}

TEST(KvTail, DroppingTheFirstTokensNeedsRoomForTheOthersAndChangesNothingWithoutIt) {
  Random random(5);
  const uint64_t bytes = [] {
    MemoryBudget probe(kPlenty);
    KvTail tail(MixedShape(), &probe);
    Random same(5);
    for (LayerId layer = 0; layer < 3; ++layer)
      EXPECT_TRUE(Append(&tail, layer, Values(600, &same)).ok());
    return probe.used_bytes();
  }();
  MemoryBudget budget(bytes);
  KvTail tail(MixedShape(), &budget);
  Model model(3);
  for (LayerId layer = 0; layer < 3; ++layer) {
    model[layer] = Values(600, &random);
    ATTNDB_ASSERT_OK(Append(&tail, layer, model[layer]));
  }
  tail.SetNonFinite(1, 0);
  EXPECT_EQ(tail.DropFirst(100).code(), StatusCode::kResourceExhausted);
  ExpectTail(tail, model);
  ATTNDB_ASSERT_OK(tail.DropFirst(600));
  EXPECT_EQ(tail.num_tokens(), 0u);
  EXPECT_FALSE(tail.non_finite(1, 0));
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(KvTail, AFailedAppendChangesNothing) {
  Random random(test::SeedOr(34));
  const auto shape = MixedShape();
  MemoryBudget budget(40 * LayerBytesPerToken(*shape, 0));
  KvTail tail(shape, &budget);
  Model model(3);
  model[0] = Values(20, &random);
  ATTNDB_ASSERT_OK(Append(&tail, 0, model[0]));
  const uint64_t used = budget.used_bytes();
  for (const uint64_t num_rows : {30u, 300u, 3000u}) {
    EXPECT_THAT(tail.BeginAppend(0, num_rows),
                FailsWith(StatusCode::kResourceExhausted, HasSubstr("tail of layer 0")));
    EXPECT_EQ(budget.used_bytes(), used);
    tail.CommitAppend(0);  // There is nothing to commit.
    ExpectTail(tail, model);
  }
  const std::vector<uint64_t> more = Values(1, &random);
  ATTNDB_ASSERT_OK(Append(&tail, 0, more));  // Rows that fit still fit.
  model[0].push_back(more[0]);
  ExpectTail(tail, model);
}

TEST(KvTail, RunsDoNotAllocateOrMoveInTheSteadyState) {
  Random random(test::SeedOr(35));
  MemoryBudget budget(kPlenty);
  KvTail tail(MixedShape(), &budget);
  ATTNDB_ASSERT_OK(Append(&tail, 0, Values(2305, &random)));
  const KvRows* const first = tail.runs(0, 0).data();
  const std::byte* const rows = tail.runs(0, 0).front().k;
  for (int i = 0; i < 100; ++i) {
    ATTNDB_ASSERT_OK(Append(&tail, 0, Values(1, &random)));
    EXPECT_EQ(tail.runs(0, 0).data(), first);
    EXPECT_EQ(tail.runs(0, 0).front().k, rows);
  }
}

TEST(KvTail, NonFiniteStaysUntilReset) {
  MemoryBudget budget(kPlenty);
  KvTail tail(MixedShape(), &budget);
  tail.SetNonFinite(2, 1);
  tail.Crop(0);
  const KvTail fork = tail.Fork();
  EXPECT_TRUE(tail.non_finite(2, 1));
  EXPECT_TRUE(fork.non_finite(2, 1));
  EXPECT_FALSE(tail.non_finite(2, 0));
  tail.Reset();
  EXPECT_FALSE(tail.non_finite(2, 1));
  EXPECT_TRUE(fork.non_finite(2, 1));
}

TEST(KvTail, ForksMayBeUsedByDifferentThreads) {
  Random random(test::SeedOr(36));
  MemoryBudget budget(kPlenty);
  KvTail tail(MixedShape(), &budget);
  Model model(3);
  for (LayerId layer = 0; layer < 3; ++layer) {
    model[layer] = Values(400, &random);
    ATTNDB_ASSERT_OK(Append(&tail, layer, model[layer]));
  }
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back(
        [fork = std::make_shared<KvTail>(tail.Fork()), mine = model, seed]() mutable {
          Random own(seed);
          for (int i = 0; i < 100; ++i) {
            for (LayerId layer = 0; layer < 3; ++layer) {
              const std::vector<uint64_t> values = Values(1 + own.Uniform(9), &own);
              ATTNDB_ASSERT_OK(Append(fork.get(), layer, values));
              mine[layer].insert(mine[layer].end(), values.begin(), values.end());
            }
          }
          ExpectTail(*fork, mine);
        });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectTail(tail, model);
}

TEST(KvTail, ABlockIsFilledToItsLastRowWhereItLies) {
  Random random(test::SeedOr(39));
  const auto shape = MixedShape();
  MemoryBudget budget(KvTail::kBlockTokens * LayerBytesPerToken(*shape, 0));
  KvTail tail(shape, &budget);
  ATTNDB_ASSERT_OK(Append(&tail, 0, Values(KvTail::kBlockTokens - 1, &random)));
  const std::byte* const rows = tail.runs(0, 0).front().k;
  ATTNDB_ASSERT_OK(Append(&tail, 0, Values(1, &random)));
  EXPECT_EQ(tail.runs(0, 0).front().k, rows);
}

TEST(KvTail, BlocksOfAnAppendThatFailedAreGivenBack) {
  const auto shape = MixedShape();
  MemoryBudget budget(600 * LayerBytesPerToken(*shape, 0));  // Two blocks of the three.
  KvTail tail(shape, &budget);
  EXPECT_EQ(tail.BeginAppend(0, 700).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_EQ(tail.memory_bytes(), 0u);
}

TEST(KvTail, TokensAreJoinedAsSoonAsTheyAreEnough) {
  Random random(test::SeedOr(41));
  MemoryBudget budget(kPlenty);
  KvTail tail(MixedShape(), &budget);
  for (int i = 0; i < 2; ++i) {
    ATTNDB_ASSERT_OK(Append(&tail, 0, Values(KvTail::kJoinedTokens - 1, &random)));
    EXPECT_FALSE(tail.CanJoin(0));
    ATTNDB_ASSERT_OK(Append(&tail, 0, Values(1, &random)));
    EXPECT_TRUE(tail.CanJoin(0));
    ATTNDB_ASSERT_OK(tail.Join(0));
  }
  EXPECT_FALSE(tail.CanJoin(0));
  EXPECT_FALSE(tail.CanJoin(1));
  EXPECT_DEATH((void)tail.joined(0, 2), "i < state.num_joined");
  EXPECT_DEATH((void)tail.BeginAppend(3, 1), "layer < layers_.size");
}

TEST(KvTail, CropForgetsAnAppendThatIsInProgress) {
  Random random(test::SeedOr(42));
  MemoryBudget budget(kPlenty);
  KvTail tail(MixedShape(), &budget);
  Model model(3);
  model[0] = Values(10, &random);
  ATTNDB_ASSERT_OK(Append(&tail, 0, model[0]));
  ATTNDB_ASSERT_OK(tail.BeginAppend(0, 5));
  tail.Crop(8);
  tail.CommitAppend(0);
  model[0].resize(8);
  ExpectTail(tail, model);
}

TEST(KvTail, WhatLayersHaveMoreThanWasDroppedStays) {
  Random random(test::SeedOr(43));
  MemoryBudget budget(kPlenty);
  KvTail tail(MixedShape(), &budget);
  Model model = {Values(300, &random), Values(512, &random), Values(812, &random)};
  for (LayerId layer = 0; layer < 3; ++layer) {
    ATTNDB_ASSERT_OK(Append(&tail, layer, model[layer]));
  }
  tail.SetNonFinite(2, 1);
  ATTNDB_ASSERT_OK(tail.DropFirst(300));
  for (auto& layer : model) layer.erase(layer.begin(), layer.begin() + 300);
  ExpectTail(tail, model);
  EXPECT_TRUE(tail.non_finite(2, 1));
  EXPECT_FALSE(tail.non_finite(2, 0));
}

}  // namespace
}  // namespace attndb::storage
