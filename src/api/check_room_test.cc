// Goal:   Store does what CheckRoom predicts, and CheckRoom changes nothing.
// Method: random stores of contexts that share beginnings, some pinned, some in use, under random
//         quotas; a prompt is asked about, then run and stored. A disk of some free bytes.
// Replay: ATTNDB_SEED.
#include "api/database.h"
#include "api/db_test_util.h"
#include "common/random.h"
#include "testing/seed.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckRoomTest : public DBFixture {
 protected:
  static constexpr uint64_t kMaxBeginning = 200;

  // Begins like one of three texts.
  Tokens RandomPrompt() {
    const Tokens text = ToyModel::Tokens(random_.Uniform(kMaxBeginning), 1 + random_.Uniform(3));
    return Concat(text, ToyModel::Tokens(1 + random_.Uniform(300), 10 + random_.Uniform(40)));
  }
  Status StoreRandom(int number) {
    now_us_ += 1'000'000;
    const std::string name = "c" + std::to_string(number);
    ATTNDB_RETURN_IF_ERROR(
        StoreTokens(RandomPrompt(), {.name = name, .pin = random_.OneIn(5)}).status());
    if (random_.OneIn(6)) return db_->SetTtl(name, std::chrono::seconds(3));
    return Status::Ok();
  }
  // Asks, runs the prompt and stores it.
  void ExpectAgreement() {
    now_us_ += 1'000'000;
    const Tokens prompt = RandomPrompt();
    const std::vector<std::string> names = ContextNames();
    const DBStats before = *db_->Stats();
    const Result<RoomReport> asked = db_->CheckRoom(model_.spec(), prompt);
    EXPECT_EQ(ContextNames(), names);
    EXPECT_EQ(db_->Stats()->bytes_written, before.bytes_written);

    SessionStart start = Start(prompt);
    // The session's access makes its shared contexts the last to be evicted.
    const Result<RoomReport> in_use = db_->CheckRoom(model_.spec(), prompt);
    ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
    const Status stored = db_->Store(start.session, prompt, {}).status();
    EXPECT_EQ(asked.status().code(), stored.code()) << asked.status().message();
    EXPECT_EQ(in_use.status().code(), stored.code());
    const DBStats after = *db_->Stats();
    num_refused_ += stored.ok() ? 0 : 1;
    if (!stored.ok() || !asked.ok() || !in_use.ok()) return;
    EXPECT_EQ(asked->num_reused, prompt.size() - start.rest.size());
    // More if Store had to try again, with knowledge that CheckRoom lacks.
    const uint64_t written = after.bytes_written - before.bytes_written;
    EXPECT_GE(written, asked->new_bytes);
    ++num_stored_;
    num_at_once_ += written == asked->new_bytes ? 1 : 0;
    const auto num_evicted = static_cast<int64_t>(after.num_evictions - before.num_evictions);
    num_evicted_ += num_evicted;
    if (HadExpired(before, after)) return;
    EXPECT_EQ(in_use->evicted,
              std::vector<std::string>(after.evicted.end() - num_evicted, after.evicted.end()));
  }
  // An expired context is dropped without an eviction, and does not count as evicted.
  bool HadExpired(const DBStats& before, const DBStats& after) const {
    return before.num_contexts + 1 - (after.num_evictions - before.num_evictions) !=
           after.num_contexts;
  }

  Random random_{test::SeedOr(37)};
  int num_refused_ = 0;
  int num_stored_ = 0;
  int num_at_once_ = 0;
  int64_t num_evicted_ = 0;
};

TEST_F(CheckRoomTest, AgreesWithStore) {
  for (int round = 0; round < 25; ++round) {
    db_.reset();
    std::filesystem::remove_all(store());
    Open();
    int number = 0;
    while (number < 8) ATTNDB_ASSERT_OK(StoreRandom(number++));
    const uint64_t used = db_->Stats()->file_bytes;
    ATTNDB_ASSERT_OK(db_->SetQuota(used / 4 + random_.Uniform(used)));
    const SessionStart holder = Start(RandomPrompt());  // Perhaps holds one of them.
    for (int i = 0; i < 6; ++i) ExpectAgreement();
  }
  EXPECT_GT(num_refused_, 10);
  EXPECT_GT(num_evicted_, 10);
  EXPECT_GT(num_at_once_, num_stored_ * 9 / 10);
}

TEST_F(CheckRoomTest, SaysWhatIsReusedAndWhoGoes) {
  const Tokens a = ToyModel::Tokens(300, 1);
  ATTNDB_ASSERT_OK(StoreTokens(a, {.name = "a"}));
  const uint64_t one = db_->Stats()->file_bytes;
  now_us_ += 1'000'000;
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(300, 2), {.name = "b"}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(RoomReport room,
                              db_->CheckRoom(model_.spec(), Concat(a, ToyModel::Tokens(9, 3))));
  EXPECT_EQ(room.num_reused, 300u);
  EXPECT_LT(room.new_bytes, one);
  EXPECT_THAT(room.evicted, IsEmpty());
  ATTNDB_ASSERT_OK(db_->SetQuota(db_->Stats()->file_bytes));
  const Tokens c = ToyModel::Tokens(250, 3);
  ATTNDB_ASSERT_OK_AND_ASSIGN(room, db_->CheckRoom(model_.spec(), c));
  EXPECT_THAT(room.evicted, ElementsAre("a"));
  ATTNDB_ASSERT_OK(db_->Pin("a"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(room, db_->CheckRoom(model_.spec(), c));
  EXPECT_THAT(room.evicted, ElementsAre("b"));
  ATTNDB_ASSERT_OK(db_->Pin("b"));
  for (const bool wait : {true, false}) {
    EXPECT_THAT(db_->CheckRoom(model_.spec(), c, {.wait = wait}),
                FailsWith(StatusCode::kResourceExhausted, HasSubstr("quota")));
  }
}

TEST_F(CheckRoomTest, EachCheckpointMakesASegment) {
  const Tokens tokens = ToyModel::Tokens(1000, 1);
  const uint64_t at_once = db_->CheckRoom(model_.spec(), tokens)->new_bytes;
  const uint64_t in_pieces =
      db_->CheckRoom(model_.spec(), tokens, {.checkpoint_tokens = 300})->new_bytes;
  uint64_t sum = 0;
  SessionStart start = Start(tokens);
  for (uint64_t end = 0; end < tokens.size();) {
    const uint64_t begin = std::exchange(end, std::min<uint64_t>(end + 300, tokens.size()));
    ATTNDB_ASSERT_OK(model_.Step(&start.session, std::span(tokens).subspan(begin, end - begin)));
    const uint64_t before = db_->Stats()->bytes_written;
    ATTNDB_ASSERT_OK(
        db_->Store(start.session, std::span(tokens).first(end), {.drop_base = true}).status());
    sum += db_->Stats()->bytes_written - before;
  }
  EXPECT_EQ(in_pieces, sum);
  EXPECT_GT(in_pieces, at_once);
}

TEST_F(CheckRoomTest, RefusesWhatIsNoPrompt) {
  EXPECT_THAT(db_->CheckRoom(model_.spec(), {}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(db_->CheckRoom(model_.spec(), Tokens{1, -1}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("-1")));
  EXPECT_THAT(db_->CheckRoom({}, Tokens{1}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("")));
}

}  // namespace
}  // namespace attndb
