// Goal:   a thread that waits for Stores does nothing else; a turn that is of no call is promised
//         its memory like the others.
// Method: a tiny model; Stores that stand still, and memory that another turn holds.
#include "server/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/batch/batch_test_util.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

class ServiceTest : public BatchTest {
 protected:
  void SetUp() override {
    Open();
    service_.conversations = &*conversations_;
    service_.engine = &*engine_;
    service_.metrics = &metrics_;
    service_.log = &log_;
    service_.run_later = [this](const Call&, std::function<void()> work) {
      later_.push_back(std::move(work));
    };
    service_.run_waiting = [this](const Call&, std::function<void()> work) {
      waiting_.push_back(std::move(work));
    };
  }

  Metrics metrics_;
  RequestLog log_{LogFormat::kOff, stderr};
  Service service_;
  std::vector<std::function<void()>> later_;
  std::vector<std::function<void()>> waiting_;
};

TEST_F(ServiceTest, AThreadThatWaitsForStoresDoesNothingElse) {
  bool has_run = false;
  const auto run = [&] { RunWhenStored(&service_, Call(), "name", [&] { has_run = true; }); };
  run();
  EXPECT_TRUE(has_run) << "nothing is stored under the name";
  has_run = false;
  StopStores("default");
  conversations_->Keep("default", "name", SessionOf("default", {1, 2, 3}), {1, 2, 3});
  run();
  ASSERT_EQ(waiting_.size(), 1u);
  ResumeStores();
  waiting_[0]();
  EXPECT_FALSE(conversations_->IsBeingStored("default", "name"));
  EXPECT_FALSE(has_run);
  ASSERT_EQ(later_.size(), 1u);
  later_[0]();
  EXPECT_TRUE(has_run);
}

TEST_F(ServiceTest, ATurnOfNoCallWaitsForItsMemory) {
  StartScheduler();
  service_.scheduler = &*scheduler_;
  const uint64_t token_bytes = engine_->spec().KvBytesPerToken();
  MemoryGate gate(10 * token_bytes, 8, [](const std::function<void()>& work) { work(); });
  service_.gate = &gate;
  MemoryGate::Place held;
  ATTNDB_ASSERT_OK(
      gate.Enter(5 * token_bytes, [&held](MemoryGate::Place place) { held = std::move(place); }));
  const auto add = [this](size_t num_tokens) {
    const auto listener = std::make_shared<RecordingListener>();
    AddWhenPromised(
        &service_, MakeTurn(Request("turn", num_tokens, 1, Greedy(1)), NewSession(*db_), listener));
    return listener;
  };
  const auto waits = add(8);
  EXPECT_EQ(gate.num_waiting(), 1u);
  EXPECT_EQ(scheduler_->num_waiting() + scheduler_->num_active(), 0u);
  EXPECT_EQ(add(20)->error().code(), StatusCode::kInvalidArgument) << "there is never so much";
  held.reset();
  ASSERT_TRUE(waits->AwaitEnd());
  ATTNDB_EXPECT_OK(waits->error());
}

// The scheduler is held up: what was promised is still held.
TEST_F(ServiceTest, ChoicesArePromisedMemoryForTheirOwnReplies) {
  StartScheduler();
  service_.scheduler = &*scheduler_;
  const uint64_t token_bytes = engine_->spec().KvBytesPerToken();
  MemoryGate gate(2000 * token_bytes, 8, [](const std::function<void()>& work) { work(); });
  service_.gate = &gate;
  Block();
  uint64_t num_tokens = 0;
  for (const size_t num_prompt : {size_t{8}, size_t{300}}) {
    const TurnRequest request = Request("turn", num_prompt, 1, Greedy(2));
    const auto make = [&] {
      return MakeTurn(request, NewSession(*db_), std::make_shared<RecordingListener>());
    };
    const auto turn = make();
    turn->AddChoices({make(), make()});
    AddWhenPromised(&service_, turn);
    num_tokens += num_prompt + 2 + 2 * (std::min<size_t>(num_prompt, 256) + 256 + 2);
    EXPECT_EQ(gate.num_held_bytes(), num_tokens * token_bytes);
  }
  gate_.Set();
  scheduler_->Stop();
  EXPECT_EQ(gate.num_held_bytes(), 0u);
}

}  // namespace
}  // namespace attndb::server
