// Goal:   an Attend that several threads share survives parts with bad arguments, parts that come
//         twice and parts that never come. Each caller gets an error, and Crop and Reset repair the
//         session.
// Method: parts brought one after another, so that a test says which come and which do not.
#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kParts = 3;

class SharedCallTest : public DBFixture {
 protected:
  SharedCallTest() : session_(NewSession()) {
    ATTNDB_EXPECT_OK(model_.Step(&session_, tokens_));
    expected_ = Probe(&session_);
    const LayerSpec& shape = model_.spec().layers[0];
    q_ = model_.Queries(0, Tokens{7}, tokens_.size() - 1);
    out_.resize(size_t{shape.num_q_heads} * shape.v_head_dim);
  }

  TensorView Q() const {
    const LayerSpec& shape = model_.spec().layers[0];
    return test::ViewOf(q_, shape.num_q_heads, shape.head_dim);
  }
  MutableTensorView Out() {
    const LayerSpec& shape = model_.spec().layers[0];
    return MutableTensorView::Contiguous(out_.data(), DType::kFloat32, 1, shape.num_q_heads,
                                         shape.v_head_dim);
  }
  Status Bring(uint32_t part, uint32_t num_parts = kParts) {
    return session_.AttendPart(0, Q(), Out(), nullptr, part, num_parts);
  }
  TensorView NarrowQ() const {
    TensorView q = Q();
    q.shape[2] -= 8;
    return q;
  }
  // The session does all that one without such a call does.
  void ExpectWhole() {
    test::DBFixture::ExpectNear(Probe(&session_), expected_);
    for (uint32_t part = 0; part < kParts; ++part) ATTNDB_EXPECT_OK(Bring(part));
    const Tokens more = ToyModel::Tokens(5, 3);
    ATTNDB_EXPECT_OK(model_.Step(&session_, more));
    ATTNDB_EXPECT_OK(db_->Store(session_, test::Concat(tokens_, more)));
  }

  const Tokens tokens_ = ToyModel::Tokens(500, 1);
  Session session_;
  std::vector<float> expected_;
  std::vector<float> q_, out_;
};

TEST_F(SharedCallTest, APartWithBadArgumentsIsRefusedAloneAndCanBeBroughtAgain) {
  for (const uint32_t bad : {0u, 1u, 2u}) {
    for (uint32_t part = 0; part < kParts; ++part) {
      if (part == bad) {
        EXPECT_THAT(session_.AttendPart(0, NarrowQ(), Out(), nullptr, part, kParts),
                    FailsWith(StatusCode::kInvalidArgument, HasSubstr("q has shape [1, 6, 24]")));
        EXPECT_THAT(session_.AttendPart(9, Q(), Out(), nullptr, part, kParts),
                    FailsWith(StatusCode::kInvalidArgument, HasSubstr("layer 9")));
      }
      ATTNDB_EXPECT_OK(Bring(part));
    }
    EXPECT_TRUE(std::equal(out_.begin(), out_.end(), expected_.begin()));
  }
  ExpectWhole();
}

TEST_F(SharedCallTest, ACallThatLacksAPartEndsWithCropOrReset) {
  ATTNDB_ASSERT_OK(Bring(0));
  EXPECT_THAT(session_.AttendPart(0, NarrowQ(), Out(), nullptr, 1, kParts),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("q has shape [1, 6, 24]")));
  ATTNDB_ASSERT_OK(session_.Crop(tokens_.size()));
  ExpectWhole();
  ATTNDB_ASSERT_OK(Bring(1));
  session_.Reset();
  ATTNDB_ASSERT_OK(model_.Step(&session_, tokens_));
  ExpectWhole();
}

TEST_F(SharedCallTest, WhileACallLacksAPartOthersAreToldWhatToDo) {
  ATTNDB_ASSERT_OK(Bring(0));
  const auto is_told =
      FailsWith(StatusCode::kFailedPrecondition,
                AllOf(HasSubstr("layer 0 in 3 parts"), HasSubstr("Crop(num_tokens()) or Reset")));
  EXPECT_THAT(Bring(0, 2), is_told);
  EXPECT_THAT(session_.Attend(0, Q(), Out()), is_told);
  EXPECT_THAT(model_.Step(&session_, Tokens{1}), is_told);
  EXPECT_THAT(db_->Store(session_, tokens_).status(), is_told);
  EXPECT_THAT(session_.Fork().status(), is_told);
  ATTNDB_EXPECT_OK(Bring(1));
  ATTNDB_EXPECT_OK(Bring(2));
  ExpectWhole();
}

TEST_F(SharedCallTest, AnAttendByAsManyThreadsLeavesACallThatLacksAPartAlone) {
  { const Session gone = std::move(session_); }  // It holds the store open.
  Open({.num_threads = kParts});
  Session session = NewSession();
  ATTNDB_ASSERT_OK(model_.Step(&session, ToyModel::Tokens(2100, 1)));  // Enough to be shared.
  const auto bring = [&](uint32_t part) {
    return session.AttendPart(0, Q(), Out(), nullptr, part, kParts);
  };
  ATTNDB_ASSERT_OK(bring(0));
  EXPECT_EQ(session.Attend(0, Q(), Out()).code(), StatusCode::kFailedPrecondition);
  ATTNDB_EXPECT_OK(bring(1));
  ATTNDB_EXPECT_OK(bring(2));
  ATTNDB_EXPECT_OK(session.Attend(0, Q(), Out()));
}

TEST_F(SharedCallTest, APartThatComesTwiceIsRefusedAndTheOthersComplete) {
  ATTNDB_ASSERT_OK(Bring(1));
  EXPECT_THAT(Bring(1), FailsWith(StatusCode::kFailedPrecondition, HasSubstr("part 1 came twice")));
  ATTNDB_EXPECT_OK(Bring(0));
  ATTNDB_EXPECT_OK(Bring(2));
  ExpectWhole();
}

TEST_F(SharedCallTest, MorePartsThanThreadsCanBeAreRefused) {
  EXPECT_THAT(Bring(0, DBOptions::kMaxThreads + 1),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("at most 1,024")));
  EXPECT_THAT(Bring(0, UINT32_MAX), FailsWith(StatusCode::kInvalidArgument, HasSubstr("parts")));
  EXPECT_THAT(Bring(3), FailsWith(StatusCode::kInvalidArgument, HasSubstr("part 3 of 3")));
  for (uint32_t part = 0; part < DBOptions::kMaxThreads; ++part) {
    ATTNDB_ASSERT_OK(Bring(part, DBOptions::kMaxThreads));
  }
  ExpectWhole();
}

// Memory for one layer of one of two contexts, of 900 tokens each: layer 1 takes 346 KB, layer 0
// half of that.
class EndedCallTest : public DBFixture {
 protected:
  EndedCallTest()
      : a_(StoreChain("a", std::vector<uint64_t>{900}, 1)),
        b_(StoreChain("b", std::vector<uint64_t>{900}, 11)) {}

  Session On(const Tokens& stored) {
    SessionStart start = Start(test::Concat(stored, Tokens{1}));
    EXPECT_EQ(start.session.num_tokens(), stored.size());
    return std::move(start.session);
  }

  const Tokens a_, b_;
};

TEST_F(EndedCallTest, WhatACallHeldOthersMayHave) {
  Open({.num_threads = 1, .host_memory_bytes = 545'000});
  Session first = On(a_);
  Session second = On(b_);
  (void)Probe(&first);
  (void)Probe(&second);
  // The same after a call that was given up.
  const LayerSpec& shape = model_.spec().layers[1];
  const std::vector<float> q = model_.Queries(1, Tokens{7}, 899);
  std::vector<float> out(size_t{shape.num_q_heads} * shape.v_head_dim);
  ATTNDB_ASSERT_OK(
      first.AttendPart(1, test::ViewOf(q, shape.num_q_heads, shape.head_dim),
                       MutableTensorView::Contiguous(out.data(), DType::kFloat32, 1,
                                                     shape.num_q_heads, shape.v_head_dim),
                       nullptr, 0, 2));
  ATTNDB_ASSERT_OK(first.Crop(900));
  (void)Probe(&second);
}

TEST_F(EndedCallTest, ALoadGoesAsFarAsThereIsRoom) {
  Open({.num_threads = 1, .host_memory_bytes = 100'000});
  Session session = On(a_);
  ATTNDB_EXPECT_OK(session.Load());
  std::vector<float> out;
  EXPECT_EQ(model_.Probe(&session, 7, &out).code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace attndb
