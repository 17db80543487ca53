// Goal:   doctor's report of the machine is plausible, and the disk test leaves nothing behind.
// Method: small measurements on this machine; bounds, not figures. A table of kernels in use.
#include "cli/common/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/common/temp_dir.h"

namespace attndb::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(MachineTest, CpuAndMemoryAreThere) {
  const CpuInfo cpu = ReadCpuInfo();
  EXPECT_GE(cpu.num_cores, 1U);
  EXPECT_FALSE(cpu.model.empty());
  const MemoryInfo memory = ReadMemoryInfo();
  EXPECT_GT(memory.total_bytes, 64 * kMiB);
  EXPECT_LE(memory.available_bytes, memory.total_bytes);
}

TEST(MachineTest, TheBandwidthBufferIsBounded) {
  const auto bytes = [](uint64_t cache, uint64_t available) {
    return BandwidthBufferBytes({.model = "", .num_cores = 1, .last_cache_bytes = cache},
                                {.total_bytes = 0, .available_bytes = available});
  };
  EXPECT_EQ(bytes(0, 64000 * kMiB), 256 * kMiB);
  EXPECT_EQ(bytes(100 * kMiB, 64000 * kMiB), 400 * kMiB);
  EXPECT_EQ(bytes(1000 * kMiB, 64000 * kMiB), 2048 * kMiB);
  EXPECT_EQ(bytes(100 * kMiB, 400 * kMiB), 100 * kMiB);
  EXPECT_EQ(bytes(100 * kMiB, 0), 16 * kMiB);
}

TEST(MachineTest, BandwidthIsMeasured) {
  const double speed = MeasureReadBandwidth(1, 16 * kMiB);
  EXPECT_GT(speed, 1e8);
  EXPECT_LT(speed, 1e13);
}

TEST(MachineTest, SlowKernelsAreExplained) {
  EXPECT_EQ(SlowKernelsText("avx512vnni", "avx512vnni", ""), "");
  EXPECT_EQ(SlowKernelsText("avx2", "avx2", "avx2"), "");
  EXPECT_EQ(SlowKernelsText("scalar", "scalar", ""),
            "the scalar kernels are in use: this CPU has no AVX2");
  EXPECT_EQ(SlowKernelsText("avx2", "avx512", "avx2"),
            "the avx2 kernels are in use: ATTNDB_ISA asks for them, this CPU can run avx512");
  // ATTNDB_ISA may ask for kernels that the build lacks.
  for (const char* const asked : {"", "avx512"}) {
    EXPECT_EQ(SlowKernelsText("avx2", "avx512", asked),
              "the avx2 kernels are in use: this CPU can run avx512, which this build lacks; "
              "'make build', or CMake with -DATTNDB_KERNELS=all, adds it");
  }
}

TEST(MachineTest, TheNearestFolderOfWhatIsNotThereIsAboveIt) {
  EXPECT_EQ(NearestFolder("/no/such/folder"), "/");
  EXPECT_EQ(NearestFolder("/usr/bin/no/such"), "/usr/bin");
  EXPECT_EQ(NearestFolder("/usr"), "/usr");
}

TEST(MachineTest, TheDiskIsMeasuredAndLeftAsItWas) {
  const Result<TempDir> dir = TempDir::Create("");
  ASSERT_TRUE(dir.ok()) << dir.status();
  const std::string folder = dir->path();
  const Result<DiskInfo> info = ReadDiskInfo(folder);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->writable);
  EXPECT_LE(info->free_bytes, info->total_bytes);
  const Result<DiskSpeed> speed = MeasureDisk(folder, 4 * kMiB);
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GT(speed->fsync_seconds, 0);
  EXPECT_GT(speed->read_bytes_per_second, 1e5);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(MachineTest, AFolderThatIsNotThereIsSaidByName) {
  EXPECT_EQ(ReadDiskInfo("/no/such").status().code(), StatusCode::kIoError);
  const Result<DiskSpeed> speed = MeasureDisk("/no/such", kMiB);
  EXPECT_EQ(speed.status().code(), StatusCode::kIoError);
  EXPECT_NE(speed.status().message().find("/no/such"), std::string::npos);
}

}  // namespace
}  // namespace attndb::cli
