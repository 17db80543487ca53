// Goal:   the next process finds the noted values again. A file that is damaged, foreign or hostile
//         counts as missing.
#include "prices/hints.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "prices/measure_machine.h"
#include "testing/temp_dir.h"

namespace attndb::internal {
namespace {

constexpr auto kContext = static_cast<ContextId>(7);

class HintsTest : public ::testing::Test {
 protected:
  HintsTest() : dir_(test::TempDir::InMemory()) {}

  std::string File() const { return dir_.File("hints.json"); }
  std::string Text() const {
    std::ostringstream text;
    text << std::ifstream(File()).rdbuf();
    return text.str();
  }
  void Write(const std::string& text) const { std::ofstream(File()) << text; }

  static planner::MachineConstants Machine(const std::string& cpu) {
    planner::MachineConstants machine;
    machine.cpu = cpu;
    machine.isa = "avx2";
    machine.num_threads = 4;
    machine.attend = {1, 2, 3, 4};
    machine.measured = true;
    return machine;
  }
  static ContextStatistics Statistics() {
    ContextStatistics statistics(2, std::vector<planner::HeadStatistics>(3));
    statistics[1][2].rows = planner::MeanRatio(4, 1);
    statistics[1][2].time_of(planner::Method::kFull) = planner::MeanRatio(2, 3);
    statistics[1][2].selected = 9;
    statistics[0][1].time_of(planner::Method::kIndex) = planner::MeanRatio(3, 8);
    statistics[0][1].missed = 0.01;
    statistics[0][1].last = planner::Method::kIndex;
    return statistics;
  }
  void SaveBoth() {
    Hints hints(storage::PosixFileSystem(), dir_.path());
    hints.NoteMachine(Machine("a"));
    hints.NoteContext(kContext, Statistics());
    hints.Save();
  }

  test::TempDir dir_;
};

TEST_F(HintsTest, TheNextProcessFindsWhatWasNoted) {
  SaveBoth();
  const Hints hints(storage::PosixFileSystem(), dir_.path());
  EXPECT_EQ(hints.FindMachine(Machine("a")), Machine("a"));
  EXPECT_EQ(hints.FindMachine(Machine("b")), std::nullopt);
  EXPECT_EQ(hints.FindContext(kContext), Statistics());
  EXPECT_EQ(hints.FindContext(static_cast<ContextId>(8)), std::nullopt);
}

TEST_F(HintsTest, TheOldestContextsAreForgotten) {
  Hints hints(storage::PosixFileSystem(), dir_.path());
  for (int64_t id = 1; id <= static_cast<int64_t>(Hints::kMaxContexts) + 1; ++id) {
    hints.NoteContext(static_cast<ContextId>(id), Statistics());
  }
  EXPECT_FALSE(hints.FindContext(static_cast<ContextId>(1)).has_value());
  EXPECT_TRUE(hints.FindContext(static_cast<ContextId>(2)).has_value());
}

TEST_F(HintsTest, NothingIsWrittenWithoutNeed) {
  Hints hints(storage::PosixFileSystem(), dir_.path());
  hints.Save();
  EXPECT_FALSE(std::ifstream(File()).good());
}

TEST_F(HintsTest, ADamagedFileIsNoFile) {
  SaveBoth();
  const std::string good = Text();
  std::mt19937 random(17);
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    for (auto n = 1 + random() % 4; n > 0; --n) {
      bad[random() % bad.size()] = static_cast<char>(random() % 256);
    }
    if (i % 3 == 0) bad.resize(random() % bad.size());
    Write(bad);
    const Hints hints(storage::PosixFileSystem(), dir_.path());
    if (const auto machine = hints.FindMachine(Machine("a"))) {
      EXPECT_GT(machine->one_bytes_per_ns, 0);
      EXPECT_GE(machine->attend[0], 0);
    }
    if (const auto statistics = hints.FindContext(kContext)) {
      for (const auto& heads : *statistics) {
        for (const auto& head : heads) EXPECT_GT(head.rows.value(), 0);
      }
    }
  }
}

TEST_F(HintsTest, AnotherVersionIsNotRead) {
  SaveBoth();
  std::string text = Text();
  text.replace(text.find("\"version\":4"), 11, "\"version\":1");
  Write(text);
  const Hints hints(storage::PosixFileSystem(), dir_.path());
  EXPECT_FALSE(hints.FindContext(kContext).has_value());
}

}  // namespace
}  // namespace attndb::internal
