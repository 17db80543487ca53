// Goal:   a change of structure changes no bit of an Attend's answer.
// Method: plan × shape of the chain, on each instruction set that the machine has: the SHA-256 of
//         all out and lse, over calls of 1, 5 and 70 rows and by 1 and 3 threads, is what the table
//         data/digests.txt says. Every derived object is ready, and prices are fixed. Shapes that
//         differ in their session alone share a store, whose objects are built once.
// Limits: only the compiler and options that the table was made with promise equal bits: GCC 12,
//         optimised, without sanitizers. Others skip it.
// Update: ATTNDB_WRITE_DIGESTS=FILE writes a table. A commit that changes bits brings the new one,
//         and says why they changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "common/hex.h"
#include "common/sha256.h"
#include "kernels/isa.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"
#include "testing/toy_model.h"

namespace attndb::test {
namespace {

using Bytes = std::vector<std::byte>;
using Tokens = std::vector<TokenId>;
// By "shape plan isa".
using Digests = std::map<std::string, std::string>;

constexpr uint64_t kTailTokens = 20;

// A session on a stored chain.
struct Shape {
  const char* name;
  uint64_t tail = kTailTokens;
  uint64_t crop_to = 0;  // Tokens of the stored chain that the session keeps; 0 = all.
};

struct Chain {
  std::vector<uint64_t> segments;  // Tokens of each stored segment.
  std::vector<Shape> shapes;
  bool non_finite = false;  // A NaN in one kv head of each layer.
};

const std::vector<Chain>& Chains() {
  static const std::vector<Chain> chains = {
      {.segments = {}, .shapes = {{.name = "tail", .tail = 700}}},
      {.segments = {4500}, .shapes = {{.name = "segment"}}},
      {.segments = {4200, 2100, 100},
       .shapes = {{.name = "chain"}, {.name = "cropped", .crop_to = 5000}}},
      {.segments = {2300}, .shapes = {{.name = "nan"}}, .non_finite = true},
  };
  return chains;
}

const char* const kPlans[] = {
    "full",
    "window",
    "topk(k=40)",
    "topk(k=40,bits=8)",
    "topk(k=40,bits=4)",
    "topk(k=40,sink=0,window=1)",
    "dipr(alpha=0.02)",
    "dipr(beta=2,bits=4)",
    "mass(p=0.9)",
    "mass(p=0.9,bits=4)",
    "topk(k=40,remainder=mean)",
    "topk(k=40,bits=4,remainder=sample:64)",
    "topk(k=40,exact_fallback=0.5)",
    "topk(k=40,bits=8,exact_fallback=0.9)",
    "topk(k=40,index=clustered)",
    "dipr(alpha=0.1,index=clustered)",
    "topk(k=40,index=graph)",
    "dipr(alpha=0.1,index=graph)",
    "topk(k=40,index=pq)",
    "dipr(alpha=0.1,index=pq,m=4,b=6)",
    "auto(error=0.1,index=pq)",
    "mass(p=0.9,index=pq)",
    "topk(k=100,index=quest)",
    "topk(k=200,index=infllm,block=32)",
    "dipr(alpha=0.1,index=graph,walk=diprs,l0=64)",
    "topk(k=40,index=graph,graphs=head)",
    "topk(k=40,index=roargraph)",
    "dipr(alpha=0.1,index=roargraph,graphs=head)",
    "topk(k=100,index=wave)",
    "topk(k=100,index=wave,cluster=32,remainder=drop)",
    "topk(k=40,index=pq,remainder=clusters)",
    "dipr(alpha=0.1,index=graph,remainder=clusters)",
    "auto(error=0.1)",
    "auto(error=0.1,index=clustered)",
    "auto(error=0.1,value_bits=8)",
};

ModelSpec Spec() {
  LayerSpec odd;  // Rows that are padded, rotated interleaved, in groups of three.
  odd.num_q_heads = 6;
  odd.num_kv_heads = 2;
  odd.head_dim = 24;
  odd.v_head_dim = 20;
  odd.rope.layout = RopeLayout::kInterleaved;
  LayerSpec wide;
  wide.num_q_heads = 4;
  wide.num_kv_heads = 1;
  wide.head_dim = wide.v_head_dim = 128;
  wide.rope.layout = RopeLayout::kHalf;
  LayerSpec with_denominators;
  with_denominators.num_q_heads = with_denominators.num_kv_heads = 2;
  with_denominators.head_dim = with_denominators.v_head_dim = 64;
  with_denominators.rope.layout = RopeLayout::kHalf;
  with_denominators.denominator_logits = {0.5f, 3.0f};
  LayerSpec sliding = wide;
  sliding.sliding_window = 300;
  ModelSpec spec = ModelSpec::Uniform(4, odd, DType::kFloat16, "digests");
  spec.layers[1] = wide;
  spec.layers[2] = with_denominators;
  spec.layers[3] = sliding;
  return spec;
}

TensorView ViewOf(const std::vector<float>& rows, uint32_t num_heads, uint32_t dim) {
  const auto num_rows = static_cast<int64_t>(rows.size() / (size_t{num_heads} * dim));
  return TensorView::Contiguous(rows.data(), DType::kFloat32, num_rows, num_heads, dim);
}

// A store with one chain, and sessions on it.
class DigestRun {
 public:
  explicit DigestRun(const Chain& chain)
      : chain_(chain), dir_(TempDir::InMemory()), model_(Spec()) {
    Open(1);
    StoreSegments();
  }

  // The outputs of all calls with `plan`, computed by `num_threads` threads.
  Bytes Outputs(const Shape& shape, const std::string& plan, uint32_t num_threads) {
    if (num_threads != num_threads_) Open(num_threads);
    Bytes outputs;
    Session session = Start(shape);
    ATTNDB_EXPECT_OK(session.SetPlan(plan));
    // The first round asks for what the plan reads of the segments, the second one finds it.
    Attend(&session, 1, nullptr);
    ATTNDB_EXPECT_OK(db_->WaitForBackground());
    for (const uint64_t num_rows : {1u, 5u, 70u}) Attend(&session, num_rows, &outputs);
    return outputs;
  }

 private:
  void Open(uint32_t num_threads) {
    db_.reset();
    // RoarGraphs are small ones, which take a tenth of the time of those that were published.
    Result<DB> db = DB::Open(dir_.File("store"), {.num_threads = num_threads,
                                                  .roar_keys_per_query = 20,
                                                  .roar_max_degree = 8,
                                                  .roar_search_window = 30,
                                                  .measure_machine = false});
    ATTNDB_ASSERT_OK(db.status());
    db_.emplace(*std::move(db));
    num_threads_ = num_threads;
  }

  void Append(Session* session, const Tokens& tokens) const {
    const uint64_t position = session->num_tokens();
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& shape = model_.spec().layers[layer];
      std::vector<float> k = model_.Keys(layer, tokens, position);
      if (chain_.non_finite && position == 0) k[3] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> v = model_.Values(layer, tokens, position);
      ATTNDB_ASSERT_OK(session->Append(layer, ViewOf(k, shape.num_kv_heads, shape.head_dim),
                                       ViewOf(v, shape.num_kv_heads, shape.v_head_dim)));
    }
  }

  // Each with queries, by which transforms and clusters are trained.
  void StoreSegments() {
    Result<SessionStart> start = db_->CreateSession(model_.spec(), Tokens{1}, {.reuse = false});
    ATTNDB_ASSERT_OK(start.status());
    for (const uint64_t size : chain_.segments) {
      const Tokens more = ToyModel::Tokens(size, size);
      Append(&start->session, more);
      Attend(&start->session, size, nullptr);
      stored_.insert(stored_.end(), more.begin(), more.end());
      ATTNDB_ASSERT_OK(
          db_->Store(start->session, stored_, {.name = "a", .replace = true}).status());
    }
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
  }

  Session Start(const Shape& shape) {
    Tokens prompt = stored_;
    prompt.push_back(1 << 20);  // No stored token.
    Result<SessionStart> start = db_->CreateSession(model_.spec(), prompt);
    EXPECT_THAT(start, IsOk());
    EXPECT_EQ(start->session.num_reused(), stored_.size());
    if (shape.crop_to != 0) {
      ATTNDB_EXPECT_OK(start->session.Crop(shape.crop_to));
    }
    Append(&start->session, ToyModel::Tokens(shape.tail, 3));
    return std::move(start->session);
  }

  void Attend(Session* session, uint64_t num_rows, Bytes* outputs) const {
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      const LayerSpec& shape = model_.spec().layers[layer];
      const std::vector<float> q =
          model_.Queries(layer, ToyModel::Tokens(num_rows, num_rows), session->num_tokens());
      std::vector<float> out(num_rows * shape.num_q_heads * shape.v_head_dim);
      std::vector<float> lse(num_rows * shape.num_q_heads);
      ATTNDB_ASSERT_OK(session->Attend(
          layer, ViewOf(q, shape.num_q_heads, shape.head_dim),
          MutableTensorView::Contiguous(out.data(), DType::kFloat32, static_cast<int64_t>(num_rows),
                                        shape.num_q_heads, shape.v_head_dim),
          lse.data()));
      if (outputs == nullptr) continue;
      for (const std::vector<float>& values : {std::cref(out), std::cref(lse)}) {
        const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
        outputs->insert(outputs->end(), bytes.begin(), bytes.end());
      }
    }
  }

  const Chain& chain_;
  TempDir dir_;
  const ToyModel model_;
  std::optional<DB> db_;
  uint32_t num_threads_ = 0;
  Tokens stored_;
};

void AddDigests(DigestRun* run, const Shape& shape, kernels::Isa isa, Digests* digests) {
  std::map<std::string, Sha256> by_plan;
  for (const uint32_t num_threads : {1u, 3u}) {
    for (const char* const plan : kPlans) {
      by_plan[plan].Update(run->Outputs(shape, plan, num_threads));
    }
  }
  for (auto& [plan, digest] : by_plan) {
    constexpr size_t kBytes = 8;  // Enough to tell two results apart.
    const Sha256Digest hash = digest.Finish();
    const std::string key =
        std::string(shape.name) + " " + plan + " " + std::string(kernels::IsaName(isa));
    (*digests)[key] = HexEncode(std::span(hash).first(kBytes));
  }
}

Digests Read(const std::string& path) {
  Digests digests;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t space = line.rfind(' ');
    if (line.starts_with('#') || space == std::string::npos) continue;
    digests[line.substr(0, space)] = line.substr(space + 1);
  }
  return digests;
}

void Write(const Digests& digests, const std::string& path) {
  std::ofstream file(path);
  file << "# shape, plan, instruction set, digest of out and lse: tests/digest/digest_test.cc\n";
  for (const auto& [key, digest] : digests) file << key << ' ' << digest << '\n';
}

constexpr bool PromisesEqualBits() {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ == 12 && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
  return true;
#else
  return false;
#endif
}

class DigestTest : public ::testing::TestWithParam<size_t> {
 protected:
  ~DigestTest() override { kernels::ForceIsa(std::nullopt); }
};

TEST_P(DigestTest, AttendsGiveTheBitsOfTheTable) {
  if (!PromisesEqualBits()) GTEST_SKIP() << "bits are promised for GCC 12, optimised";
  const Chain& chain = Chains()[GetParam()];
  Digests found;
  for (const kernels::Isa isa : kernels::kAllIsas) {
    if (!kernels::ForceIsa(isa)) continue;
    DigestRun run(chain);
    for (const Shape& shape : chain.shapes) AddDigests(&run, shape, isa, &found);
  }
  const char* const path = std::getenv("ATTNDB_WRITE_DIGESTS");
  if (path != nullptr) {
    Digests all = Read(path);
    for (const auto& [key, digest] : found) all[key] = digest;
    Write(all, path);
    return;
  }
  const Digests expected = Read(ATTNDB_DIGESTS);
  for (const auto& [key, digest] : found) {
    const auto entry = expected.find(key);
    ASSERT_NE(entry, expected.end()) << "the table has no line for: " << key;
    EXPECT_EQ(digest, entry->second) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Chains, DigestTest, ::testing::Range(size_t{0}, Chains().size()),
                         [](const auto& param) {
                           return std::string(Chains()[param.param].shapes.front().name);
                         });

}  // namespace
}  // namespace attndb::test
