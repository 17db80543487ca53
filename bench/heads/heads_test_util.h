// What tests of the benchmark share: arrays of normal values, a small capture.
#ifndef ATTNDB_BENCH_HEADS_HEADS_TEST_UTIL_H_
#define ATTNDB_BENCH_HEADS_HEADS_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "attndb/kv_file.h"
#include "bench/heads/npy.h"
#include "cli/common/temp_dir.h"

namespace attndb::bench {

inline std::vector<float> Normals(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  return values;
}

inline NpyArray Array(std::vector<int64_t> shape, uint32_t seed) {
  NpyArray array;
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  array.header.shape = std::move(shape);
  const std::vector<float> values = Normals(count, seed);
  array.words.resize((count + 1) / 2);
  std::memcpy(array.words.data(), values.data(), count * sizeof(float));
  return array;
}

// A file of `num_tokens` in layers 0 and 2 of 3, with q of the last; float32, 2/1 heads of 8.
inline std::string WriteCapture(const std::string& name, int64_t num_tokens, const Rope& rope,
                                int64_t num_queries = 20) {
  static const cli::TempDir dir = *cli::TempDir::Create("");  // This process's own.
  const std::string path = dir.path() + "/" + name;
  std::filesystem::remove(path);
  LayerSpec layer;
  layer.num_q_heads = 2;
  layer.num_kv_heads = 1;
  layer.head_dim = layer.v_head_dim = 8;
  layer.rope = rope;
  KvFileContents contents;
  contents.spec = ModelSpec::Uniform(3, layer, DType::kFloat32, "test");
  for (int64_t i = 0; i < num_tokens; ++i) contents.tokens.push_back(static_cast<TokenId>(i));
  contents.layers = {0, 2};
  contents.num_queries = static_cast<uint64_t>(num_queries);
  auto writer = KvFileWriter::Create(path, contents);
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (const LayerId i : contents.layers) {
    const std::vector<float> k = Normals(static_cast<size_t>(num_tokens) * 8, 10 + i);
    const std::vector<float> v = Normals(static_cast<size_t>(num_tokens) * 8, 20 + i);
    const std::vector<float> q = Normals(static_cast<size_t>(num_queries) * 2 * 8, 30 + i);
    const auto view = [](const std::vector<float>& values, int64_t rows, int64_t heads) {
      return TensorView::Contiguous(values.data(), DType::kFloat32, rows, heads, 8);
    };
    EXPECT_TRUE(
        writer
            ->WriteLayer(i, view(k, num_tokens, 1), view(v, num_tokens, 1), view(q, num_queries, 2))
            .ok());
  }
  EXPECT_TRUE(writer->Finish().ok());
  return path;
}

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_HEADS_HEADS_TEST_UTIL_H_
