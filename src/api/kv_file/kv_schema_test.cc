// Goal:   contents survive the way through a header; a header whose parts contradict each other is
//         refused by key or tensor.
#include "api/kv_file/kv_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "testing/matchers.h"
#include "testing/toy_model.h"

namespace attndb::internal {
namespace {

using test::FailsWith;
using test::ToyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

KvFileContents Contents() {
  KvFileContents contents;
  contents.spec = ToyModel().spec();
  contents.tokens = ToyModel::Tokens(10, 1);
  contents.first_position = 77;
  contents.layers = {0, 1};
  contents.num_queries = 4;
  contents.query_dtype = DType::kBFloat16;
  contents.notes = {{"model", "a toy"}};
  contents.text_layout = {TextForm::kDialogue,
                          {{TextRole::kUser, {2, 5}}, {TextRole::kAssistant, {7, 10}}}};
  contents.title = "What is \"it\"? Яблоко";
  contents.note = std::string("any\0bytes\xff", 10);
  contents.cuts = {{6, {{1, 3}}}, {9, {{3, 5}, {6, 7}}}};
  return contents;
}

SafetensorsHeader Header() {
  Result<SafetensorsHeader> header = FormatKvSchema(Contents());
  ATTNDB_EXPECT_OK(header);
  return *std::move(header);
}

TEST(KvSchemaTest, ContentsSurvive) {
  KvFileContents contents = Contents();
  for (const std::vector<LayerId>& layers : {std::vector<LayerId>{0, 1}, std::vector<LayerId>{1}}) {
    contents.layers = layers;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header, FormatKvSchema(contents));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const KvSchema schema, ParseKvSchema(header));
    const KvFileContents& read = schema.contents;
    EXPECT_EQ(read.spec.layers, contents.spec.layers);
    EXPECT_EQ(read.spec.kv_dtype, contents.spec.kv_dtype);
    EXPECT_EQ(read.spec.fingerprint, contents.spec.fingerprint);
    EXPECT_EQ(read.first_position, 77);
    EXPECT_EQ(read.layers, layers);
    EXPECT_EQ(read.is_complete(), layers.size() == 2);
    EXPECT_EQ(read.num_queries, 4u);
    EXPECT_EQ(read.query_dtype, DType::kBFloat16);
    EXPECT_EQ(read.notes, contents.notes);
    EXPECT_EQ(read.cuts, contents.cuts);
    EXPECT_EQ(read.text_layout, contents.text_layout);
    EXPECT_EQ(header.metadata.at("note.attndb_text_layout"), "dialogue user:2-5 assistant:7-10")
        << "earlier builds take it for a note";
    EXPECT_EQ(read.title, contents.title);
    EXPECT_EQ(read.note, contents.note);
    EXPECT_EQ(header.metadata.at("note.attndb_title"), contents.title);
    EXPECT_EQ(header.metadata.at("note.attndb_note_0"), "616e79006279746573ff");
    EXPECT_EQ(schema.num_tokens, 10u);
    ASSERT_EQ(schema.layers.size(), layers.size());
    EXPECT_THAT(schema.layers.back().k.entry.shape, ElementsAre(3, 10, 24));
    EXPECT_THAT(schema.layers.back().q.entry.shape, ElementsAre(6, 4, 24));
  }
}

TEST(KvSchemaTest, ContentsThatNoReaderWouldTakeAreNotWritten) {
  const auto expect = [](const std::function<void(KvFileContents*)>& edit, const char* message) {
    KvFileContents contents = Contents();
    edit(&contents);
    EXPECT_THAT(FormatKvSchema(contents),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect([](auto* c) { c->spec.fingerprint.clear(); }, "fingerprint of 0 bytes");
  expect([](auto* c) { c->tokens.clear(); }, "0 tokens, expected 1 to");
  expect([](auto* c) { c->tokens[3] = -1; }, "token 3 has id -1");
  expect([](auto* c) { c->first_position = -1; }, "first_position is -1");
  expect([](auto* c) { c->cuts[0].at = 11; }, "cut 0 is at 11 of 10 tokens");
  expect([](auto* c) { c->cuts[1].dropped[0].begin = 2; }, "the cuts drop token 2 twice");
  expect([](auto* c) { c->layers = {1, 0}; }, "captured_layers is '1,0', expected ascending");
  expect([](auto* c) { c->layers = {2}; }, "captured_layers is '2', expected ascending");
  expect([](auto* c) { c->num_queries = 11; }, "q of 11 tokens, but there are 10");
  expect([](auto* c) { c->query_dtype = static_cast<DType>(9); }, "query_dtype is 9");
  expect([](auto* c) { c->notes["Key"] = ""; }, "note 'Key'");
  expect([](auto* c) { c->notes["attndb_text_layout"] = "raw"; }, "note 'attndb_text_layout'");
  expect([](auto* c) { c->notes["attndb_title"] = "a"; }, "note 'attndb_title'");
  expect([](auto* c) { c->notes["attndb_note_0"] = "00"; }, "note 'attndb_note_0'");
  expect([](auto* c) { c->title = "a\nb"; }, "title has U+000A at byte 1");
  expect([](auto* c) { c->note.assign(StoreOptions::kMaxNoteBytes + 1, 'n'); },
         "note has 16,777,217 bytes");
  expect([](auto* c) { c->text_layout.messages.back().tokens.end = 11; }, "tokens 7 to 11");
  expect([](auto* c) { c->notes["key"] = std::string(70000, 'x'); }, "of 70000 bytes");
  expect([](auto* c) { c->spec.layers[0].rope.scaling = "\xff"; }, "not UTF-8");
}

TEST(KvSchemaTest, MetadataThatContradictsIsRefusedByKey) {
  const auto expect = [](const char* key, const char* value, const char* message,
                         StatusCode code = StatusCode::kInvalidArgument) {
    SafetensorsHeader header = Header();
    if (value == nullptr) {
      header.metadata.erase(key);
    } else {
      header.metadata[key] = value;
    }
    EXPECT_THAT(ParseKvSchema(header), FailsWith(code, HasSubstr(message))) << key;
  };
  for (const char* key : {"format", "version", "fingerprint", "kv_dtype", "rope_applied"}) {
    expect(key, nullptr, "__metadata__ has no ");
  }
  expect("format", "pt", "format is 'pt', expected 'attndb.kv'");
  expect("version", "2", "version is '2', this build reads '1'", StatusCode::kUnsupported);
  expect("rope_applied", "false", "rope_applied is 'false'", StatusCode::kUnsupported);
  expect("fingerprint", "", "fingerprint is '', expected hexadecimal");
  expect("fingerprint", "abc", "fingerprint is 'abc', expected hexadecimal");
  expect("fingerprint", "xy", "fingerprint is 'xy', expected hexadecimal");
  expect("fingerprint", std::string(514, 'a').c_str(), "fingerprint of 257 bytes");
  expect("kv_dtype", "F16", "kv_dtype is 'F16', expected float32, float16 or bfloat16");
  for (const char* number : {"-1", "1.0", "", " 1", "0x1", "99999999999999999999"}) {
    expect("first_position", number, "expected a whole number from 0 to 1099511627776");
  }
  expect("cuts", "6:1-3;6:3-4", "cut 1 is at 6, after one at 6");
  expect("cuts", "60:1-3", "cut 0 is at 60 of 10 tokens");
  expect("cuts", "6:1-3;", "cuts is '6:1-3;', expected AT:BEGIN-END");
  expect("num_layers", "3", "layers has 2 entries, expected 3");
  expect("layers", "[]", "layers has 0 entries, expected 2");
  expect("layers", nullptr, "__metadata__ has no layers");
  for (const char* list : {"", "0,", ",1", "1,0", "0,0", "0,2", "0 1", "-1"}) {
    expect("captured_layers", list, "expected ascending numbers below 2");
  }
  expect("captured_layers", "0", "the file has the unknown tensor 'layers.1.k'");
  expect("extra", "x", "__metadata__ has the unknown key 'extra'");
}

// A later version may know more forms than this one, and more roles.
TEST(KvSchemaTest, ATextLayoutThatCanNotBeReadIsUnknown) {
  SafetensorsHeader header = Header();
  for (const char* layout :
       {"novel", "novel user:2-5", "document narrator:2-5", "", "document user:2-11"}) {
    header.metadata["note.attndb_text_layout"] = layout;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const KvSchema schema, ParseKvSchema(header));
    EXPECT_EQ(schema.contents.text_layout, TextLayout()) << layout;
    EXPECT_EQ(schema.contents.notes, Contents().notes) << layout;
  }
}

TEST(KvSchemaTest, ATitleAndANoteThatCanNotBeReadAreNone) {
  for (const auto& [key, value] :
       {std::pair("note.attndb_title", "two\nlines"), std::pair("note.attndb_note_0", "616"),
        std::pair("note.attndb_note_1", "novel")}) {
    SafetensorsHeader header = Header();
    header.metadata[key] = value;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const KvSchema schema, ParseKvSchema(header));
    const bool is_title = std::string_view(key) == "note.attndb_title";
    EXPECT_EQ(schema.contents.title.empty(), is_title);
    EXPECT_EQ(schema.contents.note.empty(), !is_title);
    EXPECT_EQ(schema.contents.notes, Contents().notes);
  }
}

// A value of a header has at most 4 MiB.
TEST(KvSchemaTest, ALongNoteIsWrittenInPieces) {
  KvFileContents contents = Contents();
  contents.note.assign(StoreOptions::kMaxNoteBytes, 'n');
  contents.note[5'000'000] = 'm';
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header, FormatKvSchema(contents));
  EXPECT_EQ(header.metadata.count("note.attndb_note_15"), 1u);
  EXPECT_EQ(header.metadata.count("note.attndb_note_16"), 0u);
  for (const auto& [key, value] : header.metadata) EXPECT_LE(value.size(), size_t{4} << 20) << key;
  ATTNDB_ASSERT_OK_AND_ASSIGN(KvSchema schema, ParseKvSchema(header));
  EXPECT_TRUE(schema.contents.note == contents.note);
}

TEST(KvSchemaTest, TensorsThatContradictAreRefusedByName) {
  const auto expect = [](const std::function<void(std::vector<SafetensorsEntry>*)>& edit,
                         const char* message) {
    SafetensorsHeader header = Header();
    edit(&header.tensors);
    EXPECT_THAT(ParseKvSchema(header), FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  using Entries = std::vector<SafetensorsEntry>;
  enum { kTokens, kK, kV, kQ, kNextK, kNextV, kNextQ };
  expect([](Entries* t) { t->erase(t->begin()); }, "the file has no tensor 'tokens'");
  expect([](Entries* t) { (*t)[kTokens].dtype = "F32"; }, "'tokens' has dtype F32, expected I32");
  expect([](Entries* t) { (*t)[kTokens].shape = {2, 5}; }, "'tokens' has shape [2, 5]");
  expect([](Entries* t) { (*t)[kTokens].shape = {0}; }, "'tokens' has shape [0]");
  expect([](Entries* t) { (*t)[kTokens].shape = {uint64_t{1} << 31}; }, "expected [1 to 214748");
  expect([](Entries* t) { (*t)[kTokens].shape = {11}; }, "expected [2, 11, 32]");
  expect([](Entries* t) { t->pop_back(); }, "the file has no tensor 'layers.1.q'");
  expect([](Entries* t) { t->erase(t->begin() + kQ); }, "the unknown tensor 'layers.1.q'");
  expect([](Entries* t) { t->erase(t->begin() + kV); }, "the file has no tensor 'layers.0.v'");
  expect([](Entries* t) { (*t)[kK].dtype = "F64"; }, "'layers.0.k' has dtype F64, expected F32");
  expect([](Entries* t) { (*t)[kK].shape = {2, 320}; }, "'layers.0.k' has shape [2, 320]");
  expect(
      [](Entries* t) {
        (*t)[kK].shape = {10, 2, 32};
      },
      "'layers.0.k' has shape [10, 2, 32], expected [2, 10, 32]");
  expect([](Entries* t) { (*t)[kV].shape = {2, 10, 32}; }, "'layers.0.v' has shape [2, 10, 32]");
  expect([](Entries* t) { (*t)[kQ].shape = {6, 11, 32}; }, "expected [6, 1 to 10, 32]");
  expect([](Entries* t) { (*t)[kQ].shape = {6, 0, 32}; }, "expected [6, 1 to 10, 32]");
  expect([](Entries* t) { (*t)[kNextQ].shape = {6, 3, 24}; }, "expected [6, 4, 24]");
  expect([](Entries* t) { (*t)[kNextK].name = "layers.01.k"; }, "no tensor 'layers.1.k'");
  expect([](Entries* t) { t->push_back({"extra", "U8", {0}, 0, 0}); }, "unknown tensor 'extra'");
}

}  // namespace
}  // namespace attndb::internal
