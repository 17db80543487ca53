// Goal:   the files equal, byte for byte, those of the worked example in docs/formats/segment.md. A
//         change of the format that is unintended, or not documented, fails here.
// Method: the example's segment is written; its bytes are compared with literals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "common/hex.h"
#include "storage/kv/segment_writer.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"

namespace attndb::storage {
namespace {

const std::string kDir = "segments";

// One layer, one head of 2 channels, float16; two tokens; one sampled query.
class ExampleSource final : public SegmentSource {
 public:
  ExampleSource() {
    const auto set = [](std::array<uint16_t, 32>* rows, size_t row, uint16_t a, uint16_t b) {
      (*rows)[16 * row] = a;
      (*rows)[16 * row + 1] = b;
    };
    set(&k_, 0, 0x3c00, 0x4000);  // 1, 2
    set(&k_, 1, 0x4200, 0x4400);  // 3, 4
    set(&v_, 0, 0x4500, 0x4600);  // 5, 6
    set(&v_, 1, 0x4700, 0x7c00);  // 7, inf
    set(&q_, 0, 0x4800, 0x4880);  // 8, 9
  }

  std::span<const TokenId> tokens() const override { return tokens_; }
  Status LoadLayer(LayerId) override { return Status::Ok(); }
  std::span<const KvRows> rows(uint32_t) override {
    rows_[0] = {.k = Bytes(k_), .v = Bytes(v_), .num_tokens = 2};
    return rows_;
  }
  std::span<const QueryRows> queries(uint32_t) override {
    queries_[0] = {.q = Bytes(q_), .tokens = query_tokens_, .q_heads = query_heads_};
    return queries_;
  }

 private:
  static const std::byte* Bytes(const std::array<uint16_t, 32>& rows) {
    return reinterpret_cast<const std::byte*>(rows.data());
  }

  const std::array<TokenId, 2> tokens_ = {17, 4};
  const std::array<uint32_t, 1> query_tokens_ = {1};
  const std::array<uint32_t, 1> query_heads_ = {2};
  std::array<uint16_t, 32> k_ = {}, v_ = {}, q_ = {};
  std::array<KvRows, 1> rows_;
  std::array<QueryRows, 1> queries_;
};

SegmentIdentity ExampleIdentity() {
  SegmentIdentity identity;
  identity.store_uuid.fill(std::byte{0xaa});
  identity.segment_id = 42;
  identity.model_identity.fill(std::byte{0xbb});
  identity.first_position = 100;
  identity.num_tokens = 2;
  identity.shape = {.dtype = DType::kFloat16,
                    .layers = {{.num_kv_heads = 1, .head_dim = 2, .v_head_dim = 2}}};
  return identity;
}

// Hex of bytes [begin, begin + size).
std::string HexAt(const std::vector<std::byte>& file, size_t begin, size_t size) {
  return HexEncode(std::span(file).subspan(begin, size));
}

class SegmentFormatTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ATTNDB_ASSERT_OK(fs_.CreateDir(kDir));
    ExampleSource source;
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        written_,
        WriteSegment({.file_system = &fs_, .dir = kDir, .identity = ExampleIdentity()}, &source));
  }

  test::MemoryFileSystem fs_;
  WrittenSegment written_;
};

TEST_F(SegmentFormatTest, HeaderIsThatOfTheWorkedExample) {
  const std::vector<std::byte> data = fs_.Contents("segments/000000000000002a.seg");
  ASSERT_EQ(data.size(), 8456u);
  EXPECT_EQ(HexAt(data, 0, 16), "6174746e7365676d0200000000100000");
  EXPECT_EQ(HexAt(data, 16, 24), std::string(32, 'a') + "2a00000000000000");
  EXPECT_EQ(HexAt(data, 40, 32), std::string(64, 'b'));
  EXPECT_EQ(HexAt(data, 72, 16), "64000000000000000200000000000000");
  EXPECT_EQ(HexAt(data, 88, 24), "082100000000000000100000000000000500000000000000");
  EXPECT_EQ(HexAt(data, 112, 8), "0100000001000000");
  EXPECT_EQ(HexAt(data, 256, 12), "010000000200000002000000");
}

TEST_F(SegmentFormatTest, TableAndSectionsAreThoseOfTheWorkedExample) {
  const std::vector<std::byte> data = fs_.Contents("segments/000000000000002a.seg");
  ASSERT_EQ(data.size(), 8456u);
  // The third entry of the table: values of layer 0, head 0, which hold an inf.
  EXPECT_EQ(HexAt(data, 4096 + 128, 16), "76616c75657300000000000000000000");
  EXPECT_EQ(HexAt(data, 4096 + 144, 16), "00000000000000000200000000000000");
  EXPECT_EQ(HexAt(data, 4096 + 160, 16), "80200000000000004000000000000000");
  EXPECT_EQ(HexAt(data, 4096 + 176, 16), "02000000000000000000000000000000");

  EXPECT_EQ(HexAt(data, 8192, 8), "1100000004000000");
  EXPECT_EQ(HexAt(data, 8256, 4), "003c0040");
  EXPECT_EQ(HexAt(data, 8320 + 32, 4), "0047007c");
  EXPECT_EQ(HexAt(data, 8448, 8), "0100000002000000");
}

// The hash covers the manifest, and the manifest every byte of the data.
TEST_F(SegmentFormatTest, ManifestAndRootHashAreThoseOfTheWorkedExample) {
  const std::vector<std::byte> manifest = fs_.Contents("segments/000000000000002a.manifest");
  ASSERT_EQ(manifest.size(), 108u);
  EXPECT_EQ(HexAt(manifest, 0, 16), "6174746e6d6673740100000000100000");
  EXPECT_EQ(HexAt(manifest, 16, 16), "6c000000000000002a00000000000000");
  EXPECT_EQ(HexAt(manifest, 32, 16), "7365676d656e74000000000000000000");
  EXPECT_EQ(HexAt(manifest, 48, 16), "00000000000000000821000000000000");
  EXPECT_EQ(HexAt(manifest, 96, 12), "1087214bc73d7271554e4c58");
  EXPECT_EQ(HexEncode(written_.root_hash),
            "42b05e58ab71696f8749ae19233b27805e485b292a035ce3a379de0c8d704a2f");
}

}  // namespace
}  // namespace attndb::storage
