// Goal:   each call begins once, before any of its parts works, and ends once, after all parts.
// Method: threads that share calls, one call after another; the calls' state is plain, so that TSan
//         sees what the gate does not order.
#include "session/call_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#include "testing/matchers.h"

namespace attndb::internal {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

using Call = CallGate::Call;

// The state of a call, as a session has it.
struct Work {
  int num_begun = 0;
  int num_ended = 0;
  std::vector<int> parts;

  void Begin(uint32_t num_parts) {
    EXPECT_EQ(num_begun++, num_ended);
    parts.assign(num_parts, 0);
  }
  void End() {
    EXPECT_EQ(++num_ended, num_begun);
    for (const int part : parts) EXPECT_EQ(part, 1);
  }
};

void RunPart(CallGate* gate, const Call& call, uint32_t part, Work* work) {
  ATTNDB_ASSERT_OK(gate->Enter(call, part, [&] { work->Begin(call.num_parts); }));
  ++work->parts[part];
  gate->Leave([&] { work->End(); });
}

TEST(CallGateTest, ThreadsShareCalls) {
  constexpr uint32_t kParts = 4;
  constexpr int kCalls = 300;
  CallGate gate;
  Work work;
  std::barrier all_returned(kParts);
  std::vector<std::thread> threads;
  for (uint32_t part = 0; part < kParts; ++part) {
    threads.emplace_back([&, part] {
      for (int i = 0; i < kCalls; ++i) {
        RunPart(&gate, {.layer = 2, .num_parts = kParts}, part, &work);
        all_returned.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(work.num_ended, kCalls);
}

TEST(CallGateTest, OneThreadMayBringAllParts) {
  CallGate gate;
  Work work;
  for (uint32_t num_parts = 1; num_parts < 4; ++num_parts) {
    for (uint32_t part = 0; part < num_parts; ++part) {
      RunPart(&gate, {.layer = 0, .num_parts = num_parts}, part, &work);
    }
    EXPECT_EQ(work.num_ended, static_cast<int>(num_parts));
  }
}

TEST(CallGateTest, PartsWaitForASlowBeginning) {
  CallGate gate;
  Work work;
  const Call call = {.layer = 1, .num_parts = 2};
  std::barrier begun(2);
  std::thread first([&] {
    ATTNDB_EXPECT_OK(gate.Enter(call, 0, [&] {
      begun.arrive_and_wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // Others fall asleep.
      work.Begin(call.num_parts);
    }));
    ++work.parts[0];
    gate.Leave([&] { work.End(); });
  });
  begun.arrive_and_wait();
  RunPart(&gate, call, 1, &work);
  first.join();
  EXPECT_EQ(work.num_ended, 1);
}

TEST(CallGateTest, APartOfAnotherCallIsToldWhichIsUnderWay) {
  CallGate gate;
  Work work;
  const Call call = {.layer = 3, .num_parts = 2};
  RunPart(&gate, call, 0, &work);
  const auto no_begin = [] { FAIL() << "a call is under way"; };
  for (const Call& other : {Call{.layer = 4, .num_parts = 2}, Call{.layer = 3, .num_parts = 3}}) {
    EXPECT_THAT(gate.Enter(other, 1, no_begin),
                FailsWith(StatusCode::kFailedPrecondition, HasSubstr("layer 3 in 2 parts is")));
  }
  RunPart(&gate, call, 1, &work);
  EXPECT_EQ(work.num_ended, 1);
  RunPart(&gate, {.layer = 4, .num_parts = 1}, 0, &work);
  EXPECT_EQ(work.num_ended, 2);
}

TEST(CallGateTest, APartThatComesTwiceIsRefused) {
  CallGate gate;
  Work work;
  const Call call = {.layer = 0, .num_parts = 100};
  RunPart(&gate, call, 70, &work);
  EXPECT_THAT(gate.Enter(call, 70, [] { FAIL(); }),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("part 70 came twice")));
  for (uint32_t part = 0; part < 100; ++part) {
    if (part != 70) RunPart(&gate, call, part, &work);
  }
  EXPECT_EQ(work.num_ended, 1);
  RunPart(&gate, {.layer = 0, .num_parts = 1}, 0, &work);
}

TEST(CallGateTest, ACallThatIsGivenUpLetsTheNextOneIn) {
  CallGate gate;
  Work work;
  const Call call = {.layer = 3, .num_parts = 2};
  gate.GiveUp([](const Call&) { FAIL() << "no call is under way"; });
  RunPart(&gate, call, 1, &work);
  EXPECT_THAT(gate.CheckIdle(),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("layer 3 in 2 parts")));
  gate.GiveUp([&](const Call& found) {
    EXPECT_EQ(found, call);
    ++work.num_ended;
  });
  ATTNDB_EXPECT_OK(gate.CheckIdle());
  for (uint32_t part = 0; part < 2; ++part) RunPart(&gate, call, part, &work);
  EXPECT_EQ(work.num_ended, 2);
}

}  // namespace
}  // namespace attndb::internal
