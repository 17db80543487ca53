// Goal:   a thread that waits for Stores does nothing else.
// Method: a tiny model; Stores that stand still.
#include "server/service.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace attndb::server
