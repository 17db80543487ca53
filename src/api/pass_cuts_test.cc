// Goal:   a token's output under `full` does not depend, bit by bit, on how its prompt is cut into
//         calls, on neighbouring sessions, on the number of threads, or on where K and V lie.
// Method: one prompt, run in several ways, under each instruction set and type of K and V: layers
//         with and without a window, with groups of one q head to eight.
#include "attndb/session_batch.h"

#include <thread>

#include "api/db_test_util.h"
#include "kernels/isa.h"

namespace attndb {
namespace {

using test::Tokens;
using test::ToyModel;

constexpr size_t kPrompt = 1300;
constexpr uint32_t kThreads = 3;

ModelSpec SpecOf(DType kv_dtype) {
  ModelSpec spec = ToyModel().spec();
  spec.kv_dtype = kv_dtype;
  spec.layers.resize(3);
  spec.layers[2] = spec.layers[0];
  const auto shape = [&](LayerId layer, uint32_t num_q_heads, uint32_t num_kv_heads, uint32_t dim) {
    LayerSpec& of = spec.layers[layer];
    of.num_q_heads = num_q_heads;
    of.num_kv_heads = num_kv_heads;
    of.head_dim = of.v_head_dim = dim;
  };
  shape(0, 6, 2, 64);
  shape(1, 8, 1, 48);
  shape(2, 2, 2, 32);
  spec.layers[2].sliding_window = 700;
  return spec;
}

class PassCutsTest : public test::DBFixture,
                     public testing::WithParamInterface<std::tuple<kernels::Isa, DType>> {
 protected:
  void SetUp() override {
    const kernels::Isa isa = std::get<0>(GetParam());
    if (!kernels::ForceIsa(isa)) GTEST_SKIP() << "this CPU has no " << kernels::IsaName(isa);
    all_at_once_ = Run({kPrompt});
  }
  void TearDown() override { kernels::ForceIsa(std::nullopt); }

  Session NewSession() {
    Result<SessionStart> start =
        db_->CreateSession(toy_.spec(), Tokens{1}, {.reuse = false, .plan = "full"});
    EXPECT_THAT(start, test::IsOk());
    return std::move(start->session);
  }

  // The outputs of all tokens of a layer after another, whatever the steps.
  using Outputs = std::vector<std::vector<float>>;
  void Step(Session* session, size_t num_tokens, Outputs* outputs) {
    const size_t first = session->num_tokens();
    std::vector<float> out;
    ATTNDB_ASSERT_OK(
        toy_.Step(session, std::span<const TokenId>(prompt_).subspan(first, num_tokens), &out));
    Add(out, num_tokens, outputs);
  }
  void Add(const std::vector<float>& out, size_t num_tokens, Outputs* outputs) const {
    outputs->resize(toy_.spec().num_layers());
    auto from = out.begin();
    for (LayerId layer = 0; layer < toy_.spec().num_layers(); ++layer) {
      const LayerSpec& shape = toy_.spec().layers[layer];
      const auto size =
          static_cast<std::ptrdiff_t>(num_tokens * shape.num_q_heads * shape.v_head_dim);
      std::vector<float>& to = (*outputs)[layer];
      to.insert(to.end(), from, from + size);
      from += size;
    }
  }
  // The prompt in steps of these sizes, the last of them again and again.
  Outputs Run(std::vector<size_t> steps) {
    Session session = NewSession();
    Outputs outputs;
    for (size_t i = 0; session.num_tokens() < kPrompt; ++i) {
      const size_t wanted = steps[std::min(i, steps.size() - 1)];
      Step(&session, std::min(wanted, kPrompt - session.num_tokens()), &outputs);
    }
    return outputs;
  }

  void Append(Session* session, const Tokens& tokens) const {
    for (LayerId layer = 0; layer < toy_.spec().num_layers(); ++layer) {
      const LayerSpec& shape = toy_.spec().layers[layer];
      const std::vector<float> k = toy_.Keys(layer, tokens, 0);
      const std::vector<float> v = toy_.Values(layer, tokens, 0);
      ATTNDB_ASSERT_OK(session->Append(layer, test::ViewOf(k, shape.num_kv_heads, shape.head_dim),
                                       test::ViewOf(v, shape.num_kv_heads, shape.v_head_dim)));
    }
  }
  // The output of the last `num_rows` tokens in the first layer: [num_rows, num_q_heads,
  // v_head_dim].
  std::vector<float> Newest(Session* session, const Tokens& tokens, size_t num_rows) const {
    const LayerSpec& shape = toy_.spec().layers[0];
    const std::span<const TokenId> newest = std::span(tokens).last(num_rows);
    const std::vector<float> q = toy_.Queries(0, newest, tokens.size() - num_rows);
    std::vector<float> out(num_rows * shape.num_q_heads * shape.v_head_dim);
    ATTNDB_EXPECT_OK(session->Attend(
        0, test::ViewOf(q, shape.num_q_heads, shape.head_dim),
        MutableTensorView::Contiguous(out.data(), DType::kFloat32, static_cast<int64_t>(num_rows),
                                      shape.num_q_heads, shape.v_head_dim)));
    return out;
  }

  struct Row {
    Session* session;
    Tokens tokens;
  };
  // A step of several sessions, by three threads; the outputs of the second one, as Step's.
  std::vector<float> BatchStep(const std::vector<Row>& rows) {
    std::vector<SessionBatch::Entry> entries;
    std::vector<uint64_t> first;
    for (const Row& row : rows) {
      entries.push_back({row.session, static_cast<int64_t>(row.tokens.size())});
      first.push_back(row.session->num_tokens());
    }
    SessionBatch batch(entries);
    std::vector<float> own;
    for (LayerId layer = 0; layer < toy_.spec().num_layers(); ++layer) {
      std::vector<float> k, v, q;
      for (size_t i = 0; i < rows.size(); ++i) {
        AddTo(&k, toy_.Keys(layer, rows[i].tokens, first[i]));
        AddTo(&v, toy_.Values(layer, rows[i].tokens, first[i]));
        AddTo(&q, toy_.Queries(layer, rows[i].tokens, first[i]));
      }
      const std::vector<float> out = BatchLayer(&batch, layer, k, v, q);
      const size_t per_token = q.size() / TokensOf(rows);  // v_head_dim is head_dim.
      const auto begin =
          out.begin() + static_cast<std::ptrdiff_t>(rows[0].tokens.size() * per_token);
      own.insert(own.end(), begin,
                 begin + static_cast<std::ptrdiff_t>(rows[1].tokens.size() * per_token));
    }
    return own;
  }
  static void AddTo(std::vector<float>* all, const std::vector<float>& rows) {
    all->insert(all->end(), rows.begin(), rows.end());
  }
  static size_t TokensOf(const std::vector<Row>& rows) {
    size_t num_tokens = 0;
    for (const Row& row : rows) num_tokens += row.tokens.size();
    return num_tokens;
  }
  std::vector<float> BatchLayer(SessionBatch* batch, LayerId layer, const std::vector<float>& k,
                                const std::vector<float>& v, const std::vector<float>& q) const {
    const LayerSpec& shape = toy_.spec().layers[layer];
    std::vector<float> out(q.size());
    const TensorView k_view = test::ViewOf(k, shape.num_kv_heads, shape.head_dim);
    const TensorView v_view = test::ViewOf(v, shape.num_kv_heads, shape.v_head_dim);
    const TensorView q_view = test::ViewOf(q, shape.num_q_heads, shape.head_dim);
    const auto out_view = MutableTensorView::Contiguous(
        out.data(), DType::kFloat32, q_view.shape[0], shape.num_q_heads, shape.v_head_dim);
    OnThreads([&](uint32_t part) {
      ATTNDB_EXPECT_OK(batch->AppendPart(layer, k_view, v_view, part, kThreads));
    });
    OnThreads([&](uint32_t part) {
      ATTNDB_EXPECT_OK(batch->AttendPart(layer, q_view, out_view, nullptr, part, kThreads));
    });
    return out;
  }
  template <typename Call>
  static void OnThreads(const Call& call) {
    std::vector<std::thread> threads;
    for (uint32_t part = 0; part < kThreads; ++part) threads.emplace_back(call, part);
    for (std::thread& thread : threads) thread.join();
  }

  const ToyModel toy_{SpecOf(std::get<1>(GetParam()))};
  const Tokens prompt_ = ToyModel::Tokens(kPrompt, 3);
  Outputs all_at_once_;
};

TEST_P(PassCutsTest, CutsChangeNoBit) {
  EXPECT_EQ(Run({1}), all_at_once_);
  EXPECT_EQ(Run({3}), all_at_once_);
  EXPECT_EQ(Run({700, 1, 2, 300, 4, 17, 64}), all_at_once_);
}

TEST_P(PassCutsTest, ThreadsChangeNoBit) {
  for (const uint32_t num_threads : {2u, 5u}) {
    Open({.num_threads = num_threads});
    EXPECT_EQ(Run({kPrompt}), all_at_once_) << num_threads << " threads";
    EXPECT_EQ(Run({1000, 1, 1, 150, 5}), all_at_once_) << num_threads << " threads";
  }
}

// A session whose first tokens are stored, in segments of odd sizes, and others in its tail.
TEST_P(PassCutsTest, PlacesChangeNoBit) {
  Session session = NewSession();
  Outputs outputs;
  for (const size_t size : {701u, 333u, 90u}) {
    Step(&session, size, &outputs);
    const Tokens so_far(prompt_.begin(),
                        prompt_.begin() + static_cast<std::ptrdiff_t>(session.num_tokens()));
    ATTNDB_ASSERT_OK(db_->Store(session, so_far, {.name = "context", .replace = true}).status());
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start,
                              db_->CreateSession(toy_.spec(), prompt_, {.plan = "full"}));
  ASSERT_EQ(start.session.num_tokens(), session.num_tokens());
  Step(&start.session, 50, &outputs);
  while (start.session.num_tokens() < kPrompt) Step(&start.session, 1, &outputs);
  EXPECT_EQ(outputs, all_at_once_);
}

// Each step of a batch brings some tokens of the prompt, and some of two others.
TEST_P(PassCutsTest, NeighboursChangeNoBit) {
  Session session = NewSession();
  Session other = NewSession();
  Session third = NewSession();
  ATTNDB_ASSERT_OK(toy_.Step(&other, ToyModel::Tokens(900, 5)));
  Outputs outputs;
  for (size_t i = 0; session.num_tokens() < kPrompt; ++i) {
    const size_t wanted = std::vector<size_t>{400, 1, 40, 7}[i % 4];
    const size_t num_new = std::min(wanted, kPrompt - session.num_tokens());
    const Tokens own(prompt_.begin() + static_cast<std::ptrdiff_t>(session.num_tokens()),
                     prompt_.begin() + static_cast<std::ptrdiff_t>(session.num_tokens() + num_new));
    Add(BatchStep({{&other, ToyModel::Tokens(1 + i % 3, i)},
                   {&session, own},
                   {&third, ToyModel::Tokens(20, i)}}),
        num_new, &outputs);
  }
  EXPECT_EQ(outputs, all_at_once_);
}

// Beyond 32,768 tokens blocks of tokens grow (attention/token_blocks.h).
TEST_P(PassCutsTest, ThreadsAndRowsChangeNoBitOfALongContext) {
  constexpr size_t kLong = 34'000;
  constexpr size_t kRows = 40;
  const Tokens tokens = ToyModel::Tokens(kLong, 8);
  std::optional<std::vector<float>> expected;
  for (const uint32_t num_threads : {1u, 2u, 5u}) {
    Open({.num_threads = num_threads});
    Session session = NewSession();
    Append(&session, tokens);
    const std::vector<float> all = Newest(&session, tokens, kRows);
    if (!expected) expected = all;
    EXPECT_EQ(all, *expected) << num_threads << " threads";
    const std::vector<float> one = Newest(&session, tokens, 1);
    const auto size = static_cast<std::ptrdiff_t>(one.size());
    EXPECT_EQ(one, std::vector<float>(all.end() - size, all.end())) << num_threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, PassCutsTest,
                         testing::Combine(testing::ValuesIn(kernels::kAllIsas),
                                          testing::Values(DType::kFloat32, DType::kFloat16,
                                                          DType::kBFloat16)),
                         [](const auto& param) {
                           return std::string(kernels::IsaName(std::get<0>(param.param))) + "_" +
                                  std::string(DTypeName(std::get<1>(param.param)));
                         });

}  // namespace
}  // namespace attndb
