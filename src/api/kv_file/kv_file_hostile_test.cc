// Goal:   a file that is not what it says is refused with its name, what was expected and what was
//         found; nothing of it is stored, and nothing is read beyond it.
// Method: a sound file, one change at a time; any byte flipped; any length.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "api/db_test_util.h"
#include "api/kv_file/kv_file_test_util.h"
#include "attndb/kv_file.h"
#include "common/random.h"
#include "testing/seed.h"

namespace attndb {
namespace {

using test::FailsWith;
using test::RawKvFile;
using test::Tokens;
using test::ToyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kTokens = 300;
constexpr uint64_t kManyTokens = 4200;  // More than Import seals at a time.

class KvFileHostileTest : public test::DBFixture {
 protected:
  void SetUp() override {
    sound_ = SoundFile(kTokens);
    // A background build would hold a segment that was taken back.
    Result<DB> victim = DB::Open(dir_.File("victim"), {.background_builds = false});
    ASSERT_THAT(victim, test::IsOk());
    victim_.emplace(*std::move(victim));
  }

  // The file of a context of so many tokens; it stays at path().
  RawKvFile SoundFile(uint64_t num_tokens) {
    std::filesystem::remove(path());
    const std::string name = "book" + std::to_string(num_tokens);
    ATTNDB_EXPECT_OK(StoreTokens(ToyModel::Tokens(num_tokens, 3), {.name = name}));
    ATTNDB_EXPECT_OK(ExportKvFile(*db_, name, path()));
    return RawKvFile::Read(path());
  }
  std::string path() const { return dir_.File("file.safetensors"); }

  void ExpectNothingStored() {
    EXPECT_TRUE(victim_->List()->empty());
    EXPECT_EQ(test::NumFilesIn(dir_.File("victim") + "/segments"), 0u);
  }
  void ExpectRefused(StatusCode code, const std::string& message) {
    EXPECT_THAT(ImportKvFile(*victim_, path(), {.store = {.name = "copy"}}),
                FailsWith(code, AllOf(HasSubstr(path()), HasSubstr(message))));
    ExpectNothingStored();
  }
  void Expect(const std::function<void(RawKvFile*)>& edit, const char* message,
              StatusCode code = StatusCode::kInvalidArgument) {
    RawKvFile file = sound_;
    edit(&file);
    file.Write(path());
    ExpectRefused(code, message);
  }

  RawKvFile sound_;
  std::optional<DB> victim_;
};

TEST_F(KvFileHostileTest, TheSoundFileIsTaken) {
  sound_.Write(path());
  ATTNDB_EXPECT_OK(ImportKvFile(*victim_, path(), {.store = {.name = "copy"}}));
}

TEST_F(KvFileHostileTest, AFileThatContradictsItselfIsRefused) {
  using F = RawKvFile*;
  const std::string k = "layers.0.k";
  const auto offsets = [&](F f) -> nlohmann::ordered_json& { return f->header[k]["data_offsets"]; };
  Expect([&](F f) { f->header.erase("__metadata__"); }, "__metadata__ has no format");
  Expect([&](F f) { f->metadata("format") = "pt"; }, "format is 'pt'");
  Expect([&](F f) { f->metadata("version") = "2"; }, "version is '2'", StatusCode::kUnsupported);
  Expect([&](F f) { f->metadata("rope_applied") = "no"; }, "rope_applied is 'no'",
         StatusCode::kUnsupported);
  Expect([&](F f) { f->metadata("version") = 1; }, "__metadata__ has 'version' as 1");
  Expect([&](F f) { f->metadata("fingerprint") = "zz"; }, "fingerprint is 'zz'");
  Expect([&](F f) { f->metadata("kv_dtype") = "float8"; }, "kv_dtype is 'float8'");
  Expect([&](F f) { f->metadata("first_position") = "-5"; }, "first_position is '-5'");
  Expect([&](F f) { f->metadata("layers") = "[{}]"; }, "layers has 1 entries, expected 2");
  Expect([&](F f) { f->metadata("layers") = "[{\"head_dim\":-1},{}]"; }, "layer 0 has no num_q");
  Expect([&](F f) { f->metadata("num_layers") = "4294967295"; }, "layers has 2 entries");
  Expect([&](F f) { f->metadata("captured_layers") = "1"; }, "unknown tensor 'layers.0.k'");
  Expect([&](F f) { f->metadata("more") = "x"; }, "the unknown key 'more'");
  Expect([&](F f) { f->header.erase(k); }, "begins at byte");  // A hole where it was.
  Expect(
      [&](F f) {
        f->header["layers.7.k"] = {{"dtype", "U8"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
      },
      "the unknown tensor 'layers.7.k'");
  Expect([&](F f) { f->header[k]["dtype"] = "BF17"; }, "unknown dtype 'BF17'");
  Expect([&](F f) { f->header[k]["dtype"] = "I16"; }, "dtype I16, expected F32, F16 or BF16");
  Expect([&](F f) { f->header[k]["dtype"] = "F32"; }, "bytes for F32 [2, 300, 32]");
  Expect([&](F f) { f->header[k]["shape"] = {2, 300, -32}; }, "shape has -32");
  Expect([&](F f) { f->header[k]["shape"] = {300, 2, 32}; }, "expected [2, 300, 32]");
  Expect([&](F f) { f->header[k]["shape"] = {UINT64_MAX, UINT64_MAX, 2}; }, "beyond 2^64 bytes");
  Expect([&](F f) { f->header[k]["shape"] = {2, uint64_t{1} << 62, 32}; }, "beyond 2^64 bytes");
  Expect([&](F f) { offsets(f)[0] = 0; }, "expected 38400 bytes");
  Expect([&](F f) { offsets(f) = {0, 38400}; }, "begins at byte");
  Expect([&](F f) { offsets(f) = {UINT64_MAX - 38399, UINT64_MAX}; }, "begins at byte");
  Expect([&](F f) { f->data.pop_back(); }, "behind its header");
  Expect([&](F f) { f->data += '\0'; }, "behind its header");
  Expect([&](F f) { f->data[3] = '\x80'; }, "token 0 has an id below 0");
  Expect([&](F f) { f->header["tokens"]["shape"] = {2, 150}; }, "'tokens' has shape [2, 150]");
}

TEST_F(KvFileHostileTest, RepeatedKeysAreRefused) {
  const std::string bytes = sound_.Bytes();
  const std::string text = sound_.header.dump();
  const auto with = [&](const std::string& header) {
    const uint64_t length = header.size();
    RawKvFile::WriteBytes(
        path(), std::string(reinterpret_cast<const char*>(&length), 8) + header + sound_.data);
  };
  with("{\"tokens\":" + sound_.header["tokens"].dump() + "," + text.substr(1));
  ExpectRefused(StatusCode::kInvalidArgument, "header has 'tokens' twice");
  with("{\"__metadata__\":{}," + text.substr(1));
  ExpectRefused(StatusCode::kInvalidArgument, "header has '__metadata__' twice");
}

// The first piece is sealed before the value in the second is met.
TEST_F(KvFileHostileTest, AValueBeyondTheTypeTakesBackWhatWasStored) {
  RawKvFile file = SoundFile(kManyTokens);
  std::vector<float> v(2 * kManyTokens * 16, 1.0f);
  v.back() = 1e30f;
  file.Replace("layers.0.v", "F32", {reinterpret_cast<const char*>(v.data()), v.size() * 4});
  file.Write(path());
  EXPECT_THAT(
      ImportKvFile(*victim_, path(), {.store = {.name = "copy"}}),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("v of layer 0, head 1, token 4199 is")));
  ExpectNothingStored();
}

TEST_F(KvFileHostileTest, AFileThatShrinksWhileItIsReadStoresNothing) {
  SoundFile(kManyTokens);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const KvFileReader reader, KvFileReader::Open(path()));
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 1000);
  EXPECT_THAT(reader.Import(*victim_, {.store = {.name = "copy"}}),
              FailsWith(StatusCode::kCorruption, HasSubstr(path())));
  ExpectNothingStored();
}

TEST_F(KvFileHostileTest, AnyByteOfTheHeaderMayBeWrong) {
  Random random(test::SeedOr(1));
  const std::string sound = sound_.Bytes();
  const size_t header_bytes = sound.size() - sound_.data.size();
  for (int round = 0; round < 200; ++round) {
    std::string bytes = sound;
    const size_t at = random.Next() % header_bytes;
    bytes[at] = static_cast<char>(random.Next());
    RawKvFile::WriteBytes(path(), bytes);
    const Result<KvFileReader> reader = KvFileReader::Open(path());
    if (reader.ok()) continue;  // The byte was the same, or says something else that fits.
    EXPECT_THAT(reader.status().code(),
                ::testing::AnyOf(StatusCode::kInvalidArgument, StatusCode::kUnsupported))
        << at << ": " << reader.status();
    EXPECT_THAT(reader.status().message(), HasSubstr(path()));
  }
}

TEST_F(KvFileHostileTest, EveryLengthButItsOwnIsRefused) {
  const std::string sound = sound_.Bytes();
  for (size_t length = 0; length < sound.size(); length += 1 + length / 7) {
    RawKvFile::WriteBytes(path(), std::string_view(sound).substr(0, length));
    ExpectRefused(StatusCode::kInvalidArgument, "");
  }
}

}  // namespace
}  // namespace attndb
