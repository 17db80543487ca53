// Goal:   a job gets a name after all jobs that wanted it earlier, and waits for no other job. A
//         waiting job is not started.
// Method: jobs of one name and of others, which are started by hand.
#include "store/name_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace attndb::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NameOrderTest : public ::testing::Test {
 protected:
  // Adds a job that keeps the name until Leave.
  void Add(const std::string& label, const std::string& tenant, const std::string& name) {
    order_.Add(tenant, name, [this, label](NameOrder::Place place) {
      began_.push_back(label);
      held_[label] = std::make_unique<NameOrder::Place>(std::move(place));
    });
  }
  // Runs all that was started.
  void Run() {
    while (!started_.empty()) {
      const std::function<void()> next = std::move(started_.front());
      started_.pop_front();
      next();
    }
  }
  void Leave(const std::string& label) {
    // The place goes last: it may run a job that adds to held_.
    const std::unique_ptr<NameOrder::Place> place = std::move(held_.at(label));
    held_.erase(label);
  }

  std::deque<std::function<void()>> started_;
  std::vector<std::string> began_;
  NameOrder order_{[this](std::function<void()> run) {
    if (std::exchange(has_no_memory_, false)) throw std::bad_alloc();
    started_.push_back(std::move(run));
  }};
  bool has_no_memory_ = false;  // For the next job that is started.
  std::map<std::string, std::unique_ptr<NameOrder::Place>> held_;
};

TEST_F(NameOrderTest, AJobStartsWhenThoseBeforeItHaveGivenUpTheName) {
  for (const char* label : {"1", "2", "3"}) Add(label, "t", "a");
  EXPECT_EQ(started_.size(), 1u);
  Run();
  EXPECT_THAT(began_, ElementsAre("1"));
  Leave("1");
  EXPECT_EQ(started_.size(), 1u);
  Add("4", "t", "a");
  Run();
  EXPECT_THAT(began_, ElementsAre("1", "2"));
  for (const char* label : {"2", "3", "4"}) {
    Leave(label);
    Run();
  }
  EXPECT_THAT(began_, ElementsAre("1", "2", "3", "4"));
  Add("5", "t", "a");
  Run();
  EXPECT_THAT(began_, ElementsAre("1", "2", "3", "4", "5"));
}

TEST_F(NameOrderTest, AJobThatCantBeStartedHoldsNoName) {
  has_no_memory_ = true;
  EXPECT_THROW(Add("1", "t", "a"), std::bad_alloc);
  Add("2", "t", "a");
  Add("3", "t", "a");
  Run();
  EXPECT_THAT(began_, ElementsAre("2"));
  has_no_memory_ = true;
  Leave("2");  // This thread runs the next one.
  EXPECT_THAT(began_, ElementsAre("2", "3"));
  Leave("3");
  Add("4", "t", "a");
  Run();
  EXPECT_THAT(began_, ElementsAre("2", "3", "4"));
}

// It holds the tokens of a whole request.
TEST_F(NameOrderTest, AJobIsNotCopied) {
  struct Counted {
    explicit Counted(int* num) : num_copies(num) {}
    Counted(const Counted& other) : num_copies(other.num_copies) { ++*num_copies; }
    Counted(Counted&&) noexcept = default;
    Counted& operator=(const Counted&) = delete;
    Counted& operator=(Counted&&) = delete;
    ~Counted() = default;
    int* num_copies;
  };
  int num_copies = 0;
  int num_run = 0;
  for (const char* name : {"a", "a", "a", ""}) {
    order_.Add("t", name,
               [&num_run, counted = Counted(&num_copies)](const NameOrder::Place&) { ++num_run; });
  }
  Run();
  EXPECT_EQ(num_run, 4);
  EXPECT_EQ(num_copies, 0);
}

TEST_F(NameOrderTest, OtherNamesDoNotWait) {
  Add("held", "t", "a");
  Run();
  Add("other name", "t", "b");
  Add("other tenant", "u", "a");
  Add("unnamed", "t", "");
  Add("unnamed too", "t", "");
  EXPECT_EQ(started_.size(), 4u);
  Run();
  EXPECT_THAT(began_, ElementsAre("held", "other name", "other tenant", "unnamed", "unnamed too"));
}

TEST_F(NameOrderTest, AJobThatEndsGivesItsNameUp) {
  order_.Add("t", "a", [](const NameOrder::Place&) {});
  Run();
  EXPECT_THAT(started_, IsEmpty());
  Add("next", "t", "a");
  Run();
  EXPECT_THAT(began_, ElementsAre("next"));
}

}  // namespace
}  // namespace attndb::store
