// Goal:   a conversation whose stored files are gone or cut under the server goes on: its next turn
//         is stored whole from memory, or fails, and is run again from its first token. Then the
//         store has no damage.
// Method: a tiny random float32 model. The files of the first turn are removed, or cut, once it is
//         durable; the second turn must be stored as the tokens that the engine alone gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

class SchedulerDamageTest : public BatchTest {
 protected:
  // The first turn is durable; the second one goes on from it.
  void SetUp() override {
    Open();
    const TurnRequest first = Request("first", 90, 1, Greedy(6));
    second_ = Request("second", 5, 2, Greedy(6));
    const std::vector<TokenId> held = Held(first, Alone(first));
    second_.prompt.insert(second_.prompt.begin(), held.begin(), held.end());
    expected_ = Held(second_, Alone(second_));
    StartScheduler();
    ASSERT_TRUE(Add(first)->AwaitEnd());
    ASSERT_EQ(Stored("first"), held);
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
    ASSERT_EQ(StateOf("first"), TurnState::kDurable);
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& file : fs::directory_iterator(directory_.File("store") + "/segments")) {
      files.push_back(file.path());
    }
    EXPECT_FALSE(files.empty());
    return files;
  }
  TurnState StateOf(const std::string& id) {
    Status error;
    return conversations_->StateOf(second_.tenant, id, &error);
  }
  // Runs the second turn, under an id of its own.
  Status RunSecond(const std::string& id) {
    TurnRequest request = second_;
    request.id = request.cut_id = id;
    const std::shared_ptr<RecordingListener> listener = Add(request);
    EXPECT_TRUE(listener->AwaitEnd());
    return listener->error();
  }
  void ExpectWhole(const std::string& id) {
    EXPECT_EQ(Stored(id), expected_);
    EXPECT_EQ(StateOf(id), TurnState::kDurable);
    EXPECT_THAT(db_->Verify()->damages, IsEmpty());
    for (const ContextInfo& context : *db_->List())
      EXPECT_FALSE(db_->Describe(context.name)->damaged);
  }

  TurnRequest second_;
  std::vector<TokenId> expected_;  // What the second turn is stored as.
};

TEST_F(SchedulerDamageTest, ATurnWhoseBeginningWasRemovedIsStoredWhole) {
  for (const fs::path& file : Files()) fs::remove(file);
  ATTNDB_ASSERT_OK(RunSecond("second"));
  ExpectWhole("second");
}

TEST_F(SchedulerDamageTest, ATurnWhoseBeginningWasCutIsRunAgainByTheNextRequest) {
  for (const fs::path& file : Files()) fs::resize_file(file, fs::file_size(file) / 2);
  // The first request may be the one that finds the damage.
  if (!RunSecond("second").ok()) {
    ATTNDB_ASSERT_OK(RunSecond("again"));
  }
  conversations_->WaitForStores();
  const bool is_there = StateOf("second") == TurnState::kDurable;
  if (!is_there) {
    ATTNDB_ASSERT_OK(RunSecond("last"));
  }
  ExpectWhole(is_there ? "second" : "last");
}

}  // namespace
}  // namespace attndb::server
