// Goal:   the bytes of a KV file are those that docs/formats/import.md describes.
// Method: its worked example, written and compared; a change here is a change of the format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "attndb/kv_file.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb {
namespace {

constexpr char kHeader[] =
    R"({"__metadata__":{"fingerprint":"abcd","first_position":"100","format":"attndb.kv",)"
    R"("kv_dtype":"float16","layers":"{\"num_q_heads\":1,\"num_kv_heads\":1,\"head_dim\":2,)"
    R"(\"v_head_dim\":2,\"scale\":0.0,\"soft_cap\":0.0,\"sliding_window\":0,)"
    R"(\"rope_layout\":\"half\",\"rope_dims\":0,\"rope_base\":10000.0,\"rope_scaling\":\"\"}",)"
    R"("num_layers":"1","rope_applied":"true","version":"1"},)"
    R"("tokens":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)"
    R"("layers.0.k":{"dtype":"F16","shape":[1,2,2],"data_offsets":[8,16]},)"
    R"("layers.0.v":{"dtype":"F16","shape":[1,2,2],"data_offsets":[16,24]},)"
    R"("layers.0.q":{"dtype":"F32","shape":[1,1,2],"data_offsets":[24,32]}})";

constexpr unsigned char kData[] = {0x11, 0,    0,    0, 4,    0,    0,    0, 0,    0x3c, 0,
                                   0x40, 0,    0x42, 0, 0x44, 0,    0x45, 0, 0x46, 0,    0x47,
                                   0,    0x48, 0,    0, 0x10, 0x41, 0,    0, 0x20, 0x41};

TEST(KvFileFormatTest, TheWorkedExampleIsWhatIsWritten) {
  const test::TempDir dir;
  LayerSpec layer;
  layer.num_q_heads = 1;
  layer.num_kv_heads = 1;
  layer.head_dim = 2;
  layer.v_head_dim = 2;
  layer.rope.layout = RopeLayout::kHalf;
  KvFileContents contents;
  contents.spec = ModelSpec::Uniform(1, layer, DType::kFloat16, "\xab\xcd");
  contents.tokens = {17, 4};
  contents.first_position = 100;
  contents.num_queries = 1;
  const std::array<float, 4> k = {1, 2, 3, 4};
  const std::array<float, 4> v = {5, 6, 7, 8};
  const std::array<float, 2> q = {9, 10};
  ATTNDB_ASSERT_OK_AND_ASSIGN(KvFileWriter writer, KvFileWriter::Create(dir.File("x"), contents));
  ATTNDB_ASSERT_OK(writer.WriteLayer(0, TensorView::Contiguous(k.data(), DType::kFloat32, 2, 1, 2),
                                     TensorView::Contiguous(v.data(), DType::kFloat32, 2, 1, 2),
                                     TensorView::Contiguous(q.data(), DType::kFloat32, 1, 1, 2)));
  ATTNDB_ASSERT_OK(writer.Finish());

  std::ifstream file(dir.File("x"), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::string header = kHeader;
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  EXPECT_EQ(length, 640u);  // The number in the page.
  EXPECT_EQ(bytes, std::string(reinterpret_cast<const char*>(&length), 8) + header +
                       std::string(reinterpret_cast<const char*>(kData), sizeof(kData)));
}

}  // namespace
}  // namespace attndb
