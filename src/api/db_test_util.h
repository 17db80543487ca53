// Shared by tests of a store's behaviour: an open store in memory, a toy model that fills it, and
// checks of its files and its answers.
//
// Threads: one.
#ifndef ATTNDB_API_DB_TEST_UTIL_H_
#define ATTNDB_API_DB_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "testing/matchers.h"
#include "testing/store_files.h"
#include "testing/temp_dir.h"
#include "testing/toy_model.h"
#include "testing/toy_oracle.h"

namespace attndb::test {

using Tokens = std::vector<TokenId>;

// May change the rows of K and V of a layer, [tokens, num_kv_heads, dim], before they are used.
using EditRows = std::function<void(LayerId layer, std::vector<float>* k, std::vector<float>* v)>;

inline TensorView ViewOf(const std::vector<float>& rows, uint32_t num_heads, uint32_t dim) {
  return TensorView::Contiguous(rows.data(), DType::kFloat32,
                                static_cast<int64_t>(rows.size() / (size_t{num_heads} * dim)),
                                num_heads, dim);
}

inline Tokens Concat(std::span<const TokenId> a, std::span<const TokenId> b) {
  Tokens tokens(a.begin(), a.end());
  tokens.insert(tokens.end(), b.begin(), b.end());
  return tokens;
}

// K and V of a whole prompt, as Import takes them.
class KvArrays {
 public:
  KvArrays(const ToyModel& model, std::span<const TokenId> tokens, const EditRows& edit = nullptr) {
    const uint32_t num_layers = model.spec().num_layers();
    data_.resize(num_layers);
    for (LayerId layer = 0; layer < num_layers; ++layer) {
      const LayerSpec& shape = model.spec().layers[layer];
      auto& [k, v] = data_[layer];
      k = model.Keys(layer, tokens, 0);
      v = model.Values(layer, tokens, 0);
      if (edit) edit(layer, &k, &v);
      layers_.push_back({ViewOf(k, shape.num_kv_heads, shape.head_dim),
                         ViewOf(v, shape.num_kv_heads, shape.v_head_dim)});
    }
  }
  std::span<const LayerKv> layers() const { return layers_; }

 private:
  std::vector<std::pair<std::vector<float>, std::vector<float>>> data_;
  std::vector<LayerKv> layers_;
};

class DBFixture : public ::testing::Test {
 public:
  // The norm of the difference, divided by the norm of b.
  static double Difference(const std::vector<float>& a, const std::vector<float>& b) {
    double square = 0;
    double norm = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      square += std::pow(double{a[i]} - double{b[i]}, 2);
      norm += std::pow(double{b[i]}, 2);
    }
    return std::sqrt(square / norm);
  }

 protected:
  // Without background builds, a store's files are always exactly those of its segments.
  explicit DBFixture(bool background_builds = false)
      : background_builds_(background_builds), dir_(TempDir::InMemory()) {
    Open();
  }

  // Closes the store first. Uses one thread unless a test names a number: reads and learning are
  // then equal on every machine.
  void Open(DBOptions options = {}) {
    db_.reset();
    if (options.num_threads == 0) options.num_threads = 1;
    // Graphs with RoarGraph's published parameters would take most of the time of these tests.
    if (options.roar_keys_per_query == 0) options.roar_keys_per_query = 40;
    if (options.roar_max_degree == 0) options.roar_max_degree = 12;
    if (options.roar_search_window == 0) options.roar_search_window = 60;
    options.clock = [this] { return now_us_; };
    options.background_builds = options.background_builds && background_builds_;
    Result<DB> db = DB::Open(store(), options);
    EXPECT_THAT(db, IsOk());
    db_.emplace(*std::move(db));
  }
  std::string store() const { return dir_.File("store"); }

  SessionStart Start(std::span<const TokenId> tokens, const SessionOptions& options = {}) {
    Result<SessionStart> start = db_->CreateSession(model_.spec(), tokens, options);
    EXPECT_THAT(start, IsOk());
    return *std::move(start);
  }
  // A session that holds nothing.
  Session NewSession(const std::string& plan = "full") {
    return std::move(Start(Tokens{1}, {.reuse = false, .plan = plan}).session);
  }

  // A session that reuses all stored tokens and has num_more tokens in its tail.
  Session Resume(const Tokens& stored, size_t num_more = 20) {
    SessionStart start = Start(Concat(stored, ToyModel::Tokens(num_more, 9)));
    EXPECT_EQ(start.session.num_reused(), stored.size());
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    return std::move(start.session);
  }

  // Runs the tokens that are not stored, and stores all.
  Result<ContextId> StoreTokens(std::span<const TokenId> tokens, const StoreOptions& options = {}) {
    SessionStart start = Start(tokens);
    ATTNDB_RETURN_IF_ERROR(model_.Step(&start.session, start.rest));
    return db_->Store(start.session, tokens, options);
  }

  // A context with one segment per size. If sizes shrink, a Store has nothing to merge.
  Tokens StoreChain(const std::string& name, std::span<const uint64_t> sizes, uint64_t seed,
                    const EditRows& edit = nullptr) {
    Session session = NewSession();
    Tokens all;
    for (const uint64_t size : sizes) {
      const Tokens more = ToyModel::Tokens(size, seed++);
      ATTNDB_EXPECT_OK(AppendTokens(&session, more, edit));
      all = Concat(all, more);
      ATTNDB_EXPECT_OK(db_->Store(session, all, {.name = name, .replace = true}));
    }
    return all;
  }

  // Appends K and V of one step, without its attention.
  Status AppendTokens(Session* session, std::span<const TokenId> tokens, const EditRows& edit) {
    const uint64_t position = session->num_tokens();
    for (LayerId layer = 0; layer < model_.spec().num_layers(); ++layer) {
      ATTNDB_RETURN_IF_ERROR(AppendLayer(session, layer, tokens, position, edit));
    }
    return Status::Ok();
  }
  Status AppendLayer(Session* session, LayerId layer, std::span<const TokenId> tokens,
                     uint64_t position, const EditRows& edit = nullptr) {
    const LayerSpec& shape = model_.spec().layers[layer];
    std::vector<float> k = model_.Keys(layer, tokens, position);
    std::vector<float> v = model_.Values(layer, tokens, position);
    if (edit) edit(layer, &k, &v);
    return session->Append(layer, ViewOf(k, shape.num_kv_heads, shape.head_dim),
                           ViewOf(v, shape.num_kv_heads, shape.v_head_dim));
  }

  std::vector<float> Probe(Session* session) {
    std::vector<float> out;
    ATTNDB_EXPECT_OK(model_.Probe(session, 7, &out));
    return out;
  }

  std::vector<float> ProbeWith(Session* session, const std::string& plan) {
    ATTNDB_EXPECT_OK(session->SetPlan(plan));
    return Probe(session);
  }

  // Makes the objects that the plan reads of the stored tokens: another session asks for them.
  void MakeReady(const Tokens& stored, const std::string& plan) {
    Session session = Resume(stored);
    (void)ProbeWith(&session, plan);
    ATTNDB_EXPECT_OK(db_->WaitForBackground());
  }

  // Equal except for rounding, NaN and infinities included.
  static void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(found[i])) << i << ": " << found[i];
      } else if (std::isinf(expected[i])) {
        EXPECT_EQ(found[i], expected[i]) << i;
      } else {
        EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
      }
    }
  }

  // `session` holds `tokens` and attends to all of them.
  void ExpectOracle(Session* session, std::span<const TokenId> tokens) {
    ASSERT_EQ(session->num_tokens(), tokens.size());
    EXPECT_LT(OutputError(model_, Probe(session), OracleProbe(model_, tokens, 7)), 1e-3);
  }
  // Checks that a new session on `tokens` reuses `num_reused` of them, and answers as if it had run
  // all.
  void ExpectAnswers(std::span<const TokenId> tokens, uint64_t num_reused) {
    SessionStart start = Start(tokens);
    EXPECT_EQ(start.session.num_reused(), num_reused);
    ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
    ExpectOracle(&start.session, tokens);
  }

  // The names of the contexts, the oldest first.
  std::vector<std::string> ContextNames() const {
    std::vector<std::string> names;
    const std::vector<ContextInfo> infos = *db_->List();
    for (const ContextInfo& info : infos) names.push_back(info.name);
    return names;
  }
  uint64_t NumSegmentFiles() const { return NumFilesIn(store() + "/segments"); }
  // All files of a store, by path.
  static std::map<std::string, std::string> FilesIn(const std::string& dir) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      files[entry.path().string()] = std::string(std::istreambuf_iterator<char>(file), {});
    }
    return files;
  }

  const bool background_builds_;
  TempDir dir_;
  ToyModel model_;
  int64_t now_us_ = 1'700'000'000'000'000;
  std::optional<DB> db_;
};

}  // namespace attndb::test

#endif  // ATTNDB_API_DB_TEST_UTIL_H_
