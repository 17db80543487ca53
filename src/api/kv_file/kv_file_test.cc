// Goal:   a context that goes through a file answers bit for bit as before, whatever its type, RoPE
//         layout, segments and position; a file of any layout that the schema allows is read.
// Method: the toy model fills a store; export, import into another, compare attention. Files of
//         other programs are made from ours by changing their parts.
#include "attndb/kv_file.h"
#include "attndb/context_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "api/db_test_util.h"
#include "api/kv_file/kv_file_test_util.h"

namespace attndb {
namespace {

using test::Concat;
using test::FailsWith;
using test::IsOk;
using test::KvArrays;
using test::RawKvFile;
using test::TempDir;
using test::Tokens;
using test::ToyModel;
using test::ViewOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

class KvFileTest : public test::DBFixture {
 protected:
  KvFileTest() {
    Result<DB> other = DB::Open(dir_.File("other"), {.num_threads = 1});
    EXPECT_THAT(other, IsOk());
    other_.emplace(*std::move(other));
  }

  std::string path() const { return dir_.File("context.safetensors"); }

  // Output of a step of new tokens on a stored context, which must be reused whole.
  std::vector<float> Answer(const DB& db, const Tokens& tokens, int64_t first_position = 0) {
    const Tokens prompt = Concat(tokens, ToyModel::Tokens(5, 99));
    Result<SessionStart> start =
        db.CreateSession(model_.spec(), prompt, {.first_position = first_position});
    EXPECT_THAT(start, IsOk());
    EXPECT_EQ(start->session.num_reused(), tokens.size());
    std::vector<float> out;
    ATTNDB_EXPECT_OK(model_.Step(&start->session, start->rest, &out));
    return out;
  }

  // During a long import, a session stores its tokens with drop_base, under a name. Then `end` ends
  // the import.
  void ExpectOthersKeepTheirs(const std::function<bool()>& end, StatusCode code) {
    const Tokens tokens = ToyModel::Tokens(9000, 3);
    ATTNDB_ASSERT_OK(StoreTokens(tokens, {.name = "book"}));
    ATTNDB_ASSERT_OK(ExportKvFile(*db_, "book", path(), {}));
    const Tokens chat = Concat(std::span(tokens).first(4096), ToyModel::Tokens(50, 4));
    KvFileImportOptions options;
    options.progress = [&](uint64_t, uint64_t) {
      EXPECT_TRUE(other_->List()->empty());  // Nothing of an import is seen before all of it.
      SessionStart start = *other_->CreateSession(model_.spec(), chat);
      ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
      ATTNDB_EXPECT_OK(
          other_->Store(start.session, chat, {.name = "chat", .drop_base = true, .pin = true}));
      return end();
    };
    EXPECT_EQ(ImportKvFile(*other_, path(), options).status().code(), code);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, other_->Describe("chat"));
    EXPECT_TRUE(info.pinned);
    EXPECT_EQ(*other_->Tokens("chat"), chat);
    EXPECT_EQ(other_->List()->size(), 1u);
    EXPECT_TRUE(other_->Verify()->ok());
  }
  void ExpectRoundTrip(const Tokens& tokens, int64_t first_position = 0) {
    ATTNDB_ASSERT_OK(ExportKvFile(*db_, "book", path()));
    ATTNDB_ASSERT_OK(ImportKvFile(*other_, path(), {.store = {.name = "copy"}}));
    EXPECT_EQ(*other_->Tokens("copy"), tokens);
    EXPECT_EQ(Answer(*other_, tokens, first_position), Answer(*db_, tokens, first_position));
  }

  KvFileContents ContentsOf(const Tokens& tokens) const {
    KvFileContents contents;
    contents.spec = model_.spec();
    contents.tokens = tokens;
    return contents;
  }

  // Writes the model's own K, V and q of the last `num_queries` tokens.
  void WriteFile(const Tokens& tokens, uint64_t num_queries, std::vector<LayerId> layers = {0, 1}) {
    KvFileContents contents = ContentsOf(tokens);
    contents.num_queries = num_queries;
    contents.layers = layers;
    Result<KvFileWriter> writer = KvFileWriter::Create(path(), contents);
    ASSERT_THAT(writer, IsOk());
    const KvArrays kv(model_, tokens);
    for (const LayerId layer : layers) {
      const std::vector<float> q = Queries(tokens, num_queries, layer);
      const LayerSpec& shape = model_.spec().layers[layer];
      const TensorView view =
          num_queries == 0 ? TensorView{} : ViewOf(q, shape.num_q_heads, shape.head_dim);
      ATTNDB_ASSERT_OK(writer->WriteLayer(layer, kv.layers()[layer].k, kv.layers()[layer].v, view));
    }
    ATTNDB_ASSERT_OK(writer->Finish());
  }
  std::vector<float> Queries(const Tokens& tokens, uint64_t n, LayerId layer) const {
    return model_.Queries(layer, std::span(tokens).last(n), tokens.size() - n);
  }

  // K of a layer by the file, and by a session that holds all of `context`.
  std::vector<float> KeysOfFile(LayerId layer, uint64_t num_tokens) {
    const Result<KvFileReader> reader = KvFileReader::Open(path());
    EXPECT_THAT(reader, IsOk());
    const LayerSpec& shape = model_.spec().layers[layer];
    std::vector<float> k(num_tokens * shape.num_kv_heads * shape.head_dim);
    ATTNDB_EXPECT_OK(reader->ReadKv(
        layer, {0, num_tokens},
        MutableTensorView::Contiguous(k.data(), DType::kFloat32, static_cast<int64_t>(num_tokens),
                                      shape.num_kv_heads, shape.head_dim),
        {}));
    return k;
  }

  std::optional<DB> other_;
};

class KvFileTypeTest : public KvFileTest, public ::testing::WithParamInterface<DType> {
 protected:
  void SetUp() override {
    ModelSpec spec = model_.spec();
    spec.kv_dtype = GetParam();
    model_ = ToyModel(spec);
  }
};

// Layer 0 is interleaved in the model, half in the store and in the file.
TEST_P(KvFileTypeTest, ExportAndImportAnswerBitForBit) {
  const Tokens tokens = ToyModel::Tokens(5000, 3);  // Import seals 4,096 at a time.
  ATTNDB_ASSERT_OK(StoreTokens(tokens, {.name = "book"}));
  ExpectRoundTrip(tokens);
}

INSTANTIATE_TEST_SUITE_P(Types, KvFileTypeTest,
                         ::testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         [](const auto& param) { return std::string(DTypeName(param.param)); });

TEST_F(KvFileTest, AChainOfSegmentsIsExportedWhole) {
  const Tokens tokens = StoreChain("book", std::vector<uint64_t>{700, 300, 20}, 1);
  ASSERT_EQ(db_->Describe("book")->segments.size(), 3u);
  ATTNDB_ASSERT_OK(ExportKvFile(*db_, "book", path()));
  ATTNDB_ASSERT_OK(ImportKvFile(*other_, path(), {.store = {.name = "copy"}}));
  EXPECT_EQ(other_->Describe("copy")->segments.size(), 1u);
  // Sums over one segment and over three are rounded differently.
  const std::vector<float> expected = Answer(*db_, tokens);
  const std::vector<float> found = Answer(*other_, tokens);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-6) << i;
  ATTNDB_ASSERT_OK(ExportKvFile(*other_, "copy", dir_.File("again")));
  EXPECT_EQ(RawKvFile::Read(dir_.File("again")).data, RawKvFile::Read(path()).data);
}

TEST_F(KvFileTest, DenominatorLogitsSurvive) {
  ModelSpec spec = model_.spec();
  for (uint32_t head = 0; head < spec.layers[1].num_q_heads; ++head) {
    spec.layers[1].denominator_logits.push_back(1.0f / 3.0f - static_cast<float>(head));
  }
  model_ = ToyModel(spec);
  const Tokens tokens = ToyModel::Tokens(200, 3);
  ATTNDB_ASSERT_OK(StoreTokens(tokens, {.name = "book"}));
  ExpectRoundTrip(tokens);
}

TEST_F(KvFileTest, PositionsSurvive) {
  const Tokens tokens = ToyModel::Tokens(40, 3);
  SessionStart start = Start(tokens, {.first_position = 1000});
  ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
  ATTNDB_ASSERT_OK(db_->Store(start.session, tokens, {.name = "book"}));
  ExpectRoundTrip(tokens, 1000);
  EXPECT_EQ(other_->Describe("copy")->first_position, 1000);
}

TEST_F(KvFileTest, AContextIsExportedByIdAndByItsTenantOnly) {
  const Tokens tokens = ToyModel::Tokens(40, 3);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId id, StoreTokens(tokens));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB stranger, db_->ForTenant("stranger"));
  const std::string label = IdName(id);
  EXPECT_EQ(ExportKvFile(stranger, label, path()).code(), StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path()));
  ATTNDB_ASSERT_OK(ExportKvFile(*db_, label, path()));
  ATTNDB_ASSERT_OK(ImportKvFile(stranger, path(), {.store = {.name = "mine"}}));
  EXPECT_EQ(stranger.List()->size(), 1u);
  EXPECT_EQ(db_->List()->size(), 1u);
}

// Interleaved K from an engine: permuted on the way in, as Import of arrays does it.
TEST_F(KvFileTest, AFileInTheEnginesLayoutIsTheSameContext) {
  const Tokens tokens = ToyModel::Tokens(4200, 5);
  const KvArrays kv(model_, tokens);
  std::vector<std::vector<float>> q;
  std::vector<TensorView> queries;
  for (LayerId layer = 0; layer < 2; ++layer) {
    const LayerSpec& shape = model_.spec().layers[layer];
    q.push_back(Queries(tokens, 300, layer));
    queries.push_back(ViewOf(q.back(), shape.num_q_heads, shape.head_dim));
  }
  ATTNDB_ASSERT_OK(db_->Import(model_.spec(), tokens, kv.layers(), {.name = "book"}, queries));
  WriteFile(tokens, 300);
  EXPECT_EQ(RawKvFile::Read(path()).metadata("layers").get<std::string>().find("interleaved"),
            RawKvFile::Read(path()).metadata("layers").get<std::string>().rfind("interleaved"));
  ATTNDB_ASSERT_OK(ImportKvFile(*other_, path(), {.store = {.name = "copy"}}));
  EXPECT_EQ(Answer(*other_, tokens), Answer(*db_, tokens));
  EXPECT_GT(other_->Describe("copy")->query_sample_bytes, 0u);
  EXPECT_EQ(other_->Describe("copy")->query_sample_bytes,
            db_->Describe("book")->query_sample_bytes);
}

TEST_F(KvFileTest, AFileGivesBackWhatWasWritten) {
  ModelSpec spec = model_.spec();
  spec.kv_dtype = DType::kFloat32;
  model_ = ToyModel(spec);
  const Tokens tokens = ToyModel::Tokens(50, 5);
  WriteFile(tokens, 20);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const KvFileReader reader, KvFileReader::Open(path()));
  EXPECT_EQ(reader.contents().tokens, tokens);
  EXPECT_EQ(reader.contents().num_queries, 20u);
  EXPECT_EQ(KeysOfFile(1, 50), model_.Keys(1, tokens, 0));
  const LayerSpec& shape = model_.spec().layers[1];
  std::vector<float> q(size_t{7} * shape.num_q_heads * shape.head_dim);
  const auto view = MutableTensorView::Contiguous(q.data(), DType::kFloat32, 7, shape.num_q_heads,
                                                  shape.head_dim);
  ATTNDB_ASSERT_OK(reader.ReadQueries(1, {31, 38}, view));
  EXPECT_EQ(q, model_.Queries(1, std::span(tokens).subspan(31, 7), 31));
  EXPECT_THAT(reader.ReadQueries(1, {29, 36}, view),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("tokens [29, 36) are asked for, but it has [30, 50)")));
  EXPECT_THAT(reader.ReadQueries(1, {31, 37}, view),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("q has 7 rows, expected 6")));
  EXPECT_THAT(reader.ReadKv(2, {0, 1}, {}, {}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("has no layer 2")));
  EXPECT_THAT(reader.ReadKv(1, {49, 51}, {}, {}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("tokens [49, 51)")));
}

TEST_F(KvFileTest, AFileOfSomeLayersIsReadAndNotImported) {
  const Tokens tokens = ToyModel::Tokens(30, 5);
  WriteFile(tokens, 30, {1});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const KvFileReader reader, KvFileReader::Open(path()));
  EXPECT_FALSE(reader.contents().is_complete());
  EXPECT_EQ(KeysOfFile(1, 30).size(), size_t{30} * 3 * 24);
  EXPECT_THAT(reader.ReadKv(0, {0, 1}, {}, {}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("has no layer 0")));
  EXPECT_THAT(reader.Import(*other_),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr(path()), HasSubstr("holds 1 of 2 layers"))));
  EXPECT_TRUE(other_->List()->empty());
}

TEST_F(KvFileTest, WhatIsStoredAlreadyIsReused) {
  const Tokens tokens = ToyModel::Tokens(100, 5);
  ATTNDB_ASSERT_OK(StoreTokens(std::span(tokens).first(60), {.name = "begin"}));
  WriteFile(tokens, 0);
  ATTNDB_ASSERT_OK(ImportKvFile(*db_, path(), {.store = {.name = "all"}}));
  EXPECT_EQ(db_->Describe("all")->segments.size(), 2u);
  EXPECT_THAT(ImportKvFile(*db_, path(), {.store = {.name = "all"}}),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr("'all'")));
}

TEST_F(KvFileTest, ATitleAndANoteGoWithTheFile) {
  const std::string note("any\0bytes\xff", 10);
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(100, 5),
                               {.name = "book", .title = "What is it? Яблоко", .note = note}));
  ATTNDB_ASSERT_OK(ExportKvFile(*db_, "book", path()));
  ATTNDB_ASSERT_OK(ImportKvFile(*other_, path(), {.store = {.name = "copy"}}));
  EXPECT_EQ(other_->Describe("copy")->title, "What is it? Яблоко");
  EXPECT_EQ(*other_->Note("copy"), note);
  ATTNDB_ASSERT_OK(
      ImportKvFile(*other_, path(), {.store = {.name = "own", .title = "Mine", .note = "m"}}));
  EXPECT_EQ(other_->Describe("own")->title, "Mine");
  EXPECT_EQ(*other_->Note("own"), "m");
}

TEST_F(KvFileTest, AnotherFingerprintMakesItAnotherModels) {
  const Tokens tokens = ToyModel::Tokens(100, 5);
  WriteFile(tokens, 0);
  KvFileImportOptions options;
  options.store.name = "copy";
  options.fingerprint = "theirs";
  ATTNDB_ASSERT_OK(ImportKvFile(*other_, path(), options));
  EXPECT_EQ(other_->Describe("copy")->fingerprint, "theirs");
  options.fingerprint = std::string(300, 'x');
  EXPECT_THAT(ImportKvFile(*other_, path(), options),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("fingerprint of 300 bytes")));
}

// Files of other programs: 64-bit tokens, wider K, no alignment, one object for all layers.
TEST_F(KvFileTest, OtherWaysToWriteTheSameAreRead) {
  ModelSpec spec = model_.spec();
  spec.layers[1] = spec.layers[0];
  model_ = ToyModel(spec);
  const Tokens tokens = ToyModel::Tokens(100, 5);
  WriteFile(tokens, 0);
  RawKvFile file = RawKvFile::Read(path());
  const std::vector<int64_t> wide_tokens(tokens.begin(), tokens.end());
  file.Replace("tokens", "I64", {reinterpret_cast<const char*>(wide_tokens.data()), 800});
  for (LayerId layer = 0; layer < 2; ++layer) {
    const std::vector<float> k = model_.Keys(layer, tokens, 0);
    std::string heads_first;
    for (size_t h = 0; h < 2; ++h) {
      for (size_t t = 0; t < 100; ++t) {
        heads_first.append(reinterpret_cast<const char*>(&k[(t * 2 + h) * 32]), 128);
      }
    }
    file.Replace("layers." + std::to_string(layer) + ".k", "F32", heads_first);
  }
  EXPECT_EQ(file.metadata("num_layers"), "2");
  EXPECT_EQ(file.metadata("layers").get<std::string>().front(), '{');
  file.metadata("note.origin") = "elsewhere";
  file.header["__metadata__"].erase("first_position");
  for (size_t padding = 0; padding < 4; ++padding) {
    file.Write(path(), padding);
    const std::string name = "copy" + std::to_string(padding);
    ATTNDB_ASSERT_OK(ImportKvFile(*other_, path(), {.store = {.name = name}}));
    ATTNDB_ASSERT_OK(other_->Drop("copy" + std::to_string(padding)));
  }
  ATTNDB_ASSERT_OK(ImportKvFile(*other_, path()));
  const KvArrays kv(model_, tokens);
  ATTNDB_ASSERT_OK(db_->Import(spec, tokens, kv.layers()));
  EXPECT_EQ(Answer(*other_, tokens), Answer(*db_, tokens));
}

TEST_F(KvFileTest, ADamagedContextIsNotExported) {
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(400, 1), {.name = "book"}));
  Open();
  for (const auto& [name, bytes] : FilesIn(store() + "/segments")) {
    std::string damaged = bytes;
    if (damaged.size() > 20000) damaged[20000] = static_cast<char>(damaged[20000] ^ 1);
    std::ofstream(name, std::ios::binary) << damaged;
  }
  EXPECT_EQ(ExportKvFile(*db_, "book", path()).code(), StatusCode::kCorruption);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    EXPECT_TRUE(entry.is_directory()) << entry.path();  // No file, no temporary one.
  }
}

TEST_F(KvFileTest, ProgressIsToldAndMayCancel) {
  const Tokens tokens = ToyModel::Tokens(9000, 3);
  ATTNDB_ASSERT_OK(StoreTokens(tokens, {.name = "book"}));
  const uint64_t total = tokens.size() * model_.spec().KvBytesPerToken();
  std::vector<uint64_t> calls;
  bool go_on = false;
  const KvFileProgress progress = [&](uint64_t bytes_done, uint64_t bytes_total) {
    EXPECT_EQ(bytes_total, total);
    calls.push_back(bytes_done);
    return go_on;
  };
  KvFileExportOptions how;
  how.progress = progress;
  EXPECT_EQ(ExportKvFile(*db_, "book", path(), how).code(), StatusCode::kCancelled);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    EXPECT_TRUE(entry.is_directory()) << entry.path();
  }
  go_on = true;
  ATTNDB_ASSERT_OK(ExportKvFile(*db_, "book", path(), how));
  EXPECT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls.back(), total);

  calls.clear();
  go_on = false;
  KvFileImportOptions options;
  options.progress = progress;
  EXPECT_EQ(ImportKvFile(*other_, path(), options).status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(other_->List()->empty());
  go_on = true;
  ATTNDB_ASSERT_OK(ImportKvFile(*other_, path(), options));
  EXPECT_EQ(calls.size(), 3u);  // After 4,096, and again, and after 8,192.
}

TEST_F(KvFileTest, AnImportThatIsCancelledTakesNothingBackThatOthersHaveStored) {
  ExpectOthersKeepTheirs([] { return false; }, StatusCode::kCancelled);
}

TEST_F(KvFileTest, AnImportThatFailsTakesNothingBackThatOthersHaveStored) {
  const auto cut = [this] {
    std::filesystem::resize_file(path(), std::filesystem::file_size(path()) / 2);
    return true;
  };
  ExpectOthersKeepTheirs(cut, StatusCode::kCorruption);
}

TEST_F(KvFileTest, AWriterIsToldWhatItDidWrong) {
  const Tokens tokens = ToyModel::Tokens(8, 5);
  const KvArrays kv(model_, tokens);
  const TensorView k = kv.layers()[0].k;
  const TensorView v = kv.layers()[0].v;
  KvFileContents contents = ContentsOf(tokens);
  ATTNDB_ASSERT_OK_AND_ASSIGN(KvFileWriter writer, KvFileWriter::Create(path(), contents));
  const auto expect = [&](StatusCode code, LayerId layer, const TensorView& key,
                          const TensorView& query, const char* message) {
    EXPECT_THAT(writer.WriteLayer(layer, key, v, query), FailsWith(code, HasSubstr(message)));
  };
  expect(StatusCode::kFailedPrecondition, 1, k, {}, "layer 1 out of order; expected layer 0");
  expect(StatusCode::kInvalidArgument, 0, v, {}, "k has shape [8, 2, 16]");
  expect(StatusCode::kInvalidArgument, 0, {}, {}, "k has shape [0, 0, 0]");
  expect(StatusCode::kInvalidArgument, 0, k, k, "q is given, but the file has no queries");
  TensorView fewer = k;
  fewer.shape[0] = 7;
  expect(StatusCode::kInvalidArgument, 0, fewer, {}, "k has 7 rows, expected 8");
  EXPECT_THAT(writer.Finish(), FailsWith(StatusCode::kFailedPrecondition, HasSubstr("0 of 2")));
  ATTNDB_ASSERT_OK(writer.WriteLayer(0, k, v));
  ATTNDB_ASSERT_OK(writer.WriteLayer(1, kv.layers()[1].k, kv.layers()[1].v));
  expect(StatusCode::kFailedPrecondition, 1, k, {}, "all layers are written");
  EXPECT_FALSE(std::filesystem::exists(path()));
  ATTNDB_ASSERT_OK(writer.Finish());
  EXPECT_THAT(writer.Finish(), FailsWith(StatusCode::kFailedPrecondition, HasSubstr("finished")));
  EXPECT_THAT(KvFileWriter::Create(path(), contents),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr(path())));
  contents.tokens.clear();
  EXPECT_THAT(KvFileWriter::Create(path() + "2", contents),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("0 tokens")));
}

TEST_F(KvFileTest, AValueBeyondTheTypeIsRefusedAndLeavesNoFile) {
  const Tokens tokens = ToyModel::Tokens(8, 5);
  const KvArrays kv(model_, tokens, [](LayerId, std::vector<float>* k, std::vector<float>*) {
    (*k)[3 * 64 + 32] = 1e6f;  // Token 3, head 1 of layer 0.
  });
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(KvFileWriter writer,
                                KvFileWriter::Create(path(), ContentsOf(tokens)));
    EXPECT_THAT(writer.WriteLayer(0, kv.layers()[0].k, kv.layers()[0].v),
                FailsWith(StatusCode::kInvalidArgument,
                          HasSubstr("k of layer 0, head 1, rows 0 to 7 has a value beyond the "
                                    "range of float16")));
    EXPECT_THAT(writer.WriteLayer(0, kv.layers()[0].k, kv.layers()[0].v),
                FailsWith(StatusCode::kFailedPrecondition, HasSubstr("earlier layer")));
    EXPECT_EQ(writer.Finish().code(), StatusCode::kFailedPrecondition);
  }
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    EXPECT_TRUE(entry.is_directory()) << entry.path();
  }
}

}  // namespace
}  // namespace attndb
