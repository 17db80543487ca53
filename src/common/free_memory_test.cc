// Goal:   finds the minimum of the machine's free memory and of each control group's rest, in both
//         versions of control groups, in a container and outside of one.
// Method: folders with the files that the kernel shows.
#include "common/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testing/temp_dir.h"

namespace attndb {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class FreeMemoryTest : public ::testing::Test {
 protected:
  FreeMemoryTest() {
    Write("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nCached: 5 kB\n");
  }

  void Write(const std::string& path, const std::string& content) {
    const std::filesystem::path file = dir_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  // A group of version 2: all in MiB; no limit: "max".
  void WriteGroup(const std::string& folder, const std::string& limit, uint64_t used_mib,
                  uint64_t file_mib) {
    Write("/sys/fs/cgroup" + folder + "/memory.max", limit + "\n");
    Write("/sys/fs/cgroup" + folder + "/memory.current", std::to_string(used_mib * kMiB) + "\n");
    Write("/sys/fs/cgroup" + folder + "/memory.stat",
          "anon 7\nfile " + std::to_string(file_mib * kMiB) + "\nfile_mapped 1\n");
  }
  uint64_t FreeMib() const { return FreeMemoryBytes(dir_.path()) / kMiB; }

  const test::TempDir dir_;
};

TEST_F(FreeMemoryTest, WithoutGroupsItIsThatOfTheMachine) {
  EXPECT_EQ(FreeMib(), 8192u);
  Write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(FreeMib(), 8192u);
}

TEST_F(FreeMemoryTest, AContainerSeesItsLimitAtTheMount) {
  Write("/proc/self/cgroup", "0::/\n");
  WriteGroup("", std::to_string(1024 * kMiB), 300, 100);
  EXPECT_EQ(FreeMib(), 1024u - 200);  // The cache of files can be had back.
}

TEST_F(FreeMemoryTest, OfGroupsInGroupsTheLeastCounts) {
  Write("/proc/self/cgroup", "0::/service/worker\n");
  WriteGroup("/service/worker", "max", 100, 0);
  EXPECT_EQ(FreeMib(), 8192u);
  WriteGroup("/service", std::to_string(2048 * kMiB), 1000, 0);
  EXPECT_EQ(FreeMib(), 1048u);
  WriteGroup("/service/worker", std::to_string(512 * kMiB), 100, 0);
  EXPECT_EQ(FreeMib(), 412u);
  WriteGroup("/service/worker", std::to_string(50 * kMiB), 100, 0);  // It was lowered.
  EXPECT_EQ(FreeMib(), 0u);
}

TEST_F(FreeMemoryTest, Version1HasAControllerOfItsOwn) {
  Write("/proc/self/cgroup", "8:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/abc\n0::/\n");
  const std::string at_mount = "/sys/fs/cgroup/memory";  // The container's, inside of it.
  Write(at_mount + "/memory.limit_in_bytes", std::to_string(256 * kMiB));
  Write(at_mount + "/memory.usage_in_bytes", std::to_string(64 * kMiB));
  Write(at_mount + "/memory.stat", "cache 5\ntotal_cache " + std::to_string(32 * kMiB) + "\n");
  EXPECT_EQ(FreeMib(), 256u - 32);
  Write(at_mount + "/memory.limit_in_bytes", "9223372036854771712\n");  // No limit.
  EXPECT_EQ(FreeMib(), 8192u);
}

TEST_F(FreeMemoryTest, WhatCanNotBeReadIsNoLimit) {
  Write("/proc/self/cgroup", "nonsense\n0::\n:::\n4:memory:/gone\n");
  EXPECT_EQ(FreeMib(), 8192u);
  EXPECT_GT(FreeMemoryBytes(), 0u);  // This machine's.
}

}  // namespace
}  // namespace attndb
