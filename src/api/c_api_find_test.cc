// Goal:   finding passages and sessions over contexts through the C interface are those of the C++
//         one; names and structs that can't be read are named.
// Method: the same store asked through both; each argument missing in turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/c_api_call.h"
#include "api/c_api_json.h"
#include "api/db_test_util.h"
#include "attndb/c_api.h"

namespace attndb {
namespace {

using ::testing::HasSubstr;

class CApiFindTest : public test::DBFixture {
 protected:
  CApiFindTest() {
    const test::Tokens a = test::ToyModel::Tokens(300, 1);
    ATTNDB_EXPECT_OK(StoreTokens(a, {.name = "a"}));
    ATTNDB_EXPECT_OK(StoreTokens(test::ToyModel::Tokens(200, 2), {.name = "b"}));
    handle_ = std::make_unique<attndb_db>(attndb_db{*db_});
    for (const LayerSpec& layer : model_.spec().layers) layers_.push_back(CLayer(layer));
    spec_ = {.struct_size = sizeof spec_,
             .layers = layers_.data(),
             .num_layers = model_.spec().num_layers(),
             .kv_dtype = static_cast<int32_t>(model_.spec().kv_dtype),
             .fingerprint = model_.spec().fingerprint.data(),
             .fingerprint_bytes = model_.spec().fingerprint.size()};
    q_ = model_.Keys(1, {&a[100], 3}, 100);
    const uint32_t num_kv_heads = model_.spec().layers[1].num_kv_heads;
    const uint32_t dim = model_.spec().layers[1].head_dim;
    view_ = test::ViewOf(q_, num_kv_heads, dim);
    view_.shape[1] = 1;  // The view is of the first kv head alone.
    std::memset(&tensor_, 0, sizeof tensor_);
    tensor_.struct_size = sizeof tensor_;
    tensor_.data = q_.data();
    tensor_.dtype = ATTNDB_FLOAT32;
    for (size_t i = 0; i < 3; ++i) {
      tensor_.shape[i] = view_.shape[i];
      tensor_.strides[i] = view_.strides[i];
    }
  }

  static attndb_layer_spec CLayer(const LayerSpec& from) {
    attndb_layer_spec layer = {};
    layer.struct_size = sizeof layer;
    layer.num_q_heads = from.num_q_heads;
    layer.num_kv_heads = from.num_kv_heads;
    layer.head_dim = from.head_dim;
    layer.v_head_dim = from.v_head_dim;
    layer.scale = from.scale;
    layer.soft_cap = from.soft_cap;
    layer.rope_layout = static_cast<int32_t>(from.rope.layout);
    layer.rope_dims = from.rope.rope_dims;
    layer.rope_base = from.rope.base;
    return layer;
  }

  std::unique_ptr<attndb_db> handle_;
  std::vector<attndb_layer_spec> layers_;
  attndb_model_spec spec_ = {};
  std::vector<float> q_;
  TensorView view_;
  attndb_tensor tensor_;
  const attndb_find_head head_ = {.layer = 1, .q_head = 0};
};

TEST_F(CApiFindTest, FindsWhatTheOtherInterfaceFinds) {
  const FindQuery query = {.heads = {{1, 0}}, .q = {view_}, .first_position = 100};
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const FindResult expected,
      db_->Find(model_.spec(), query,
                {.limit = 3, .contexts = {"a", "b"}, .passage_tokens = 16, .head_scores = true}));
  const char* const names[] = {"a", "b"};
  const attndb_find_options options = {.struct_size = sizeof options,
                                       .limit = 3,
                                       .contexts = names,
                                       .num_contexts = 2,
                                       .passage_tokens = 16,
                                       .head_scores = 1};
  char* text = nullptr;
  ASSERT_EQ(attndb_db_find(handle_.get(), &spec_, &head_, &tensor_, 1, 100, &options, &text), 0)
      << attndb_last_error();
  EXPECT_EQ(text, internal::ToJson(expected));
  const nlohmann::json found = nlohmann::json::parse(text);
  attndb_free(text);
  ASSERT_EQ(found["passages"].size(), 3u);
  EXPECT_EQ(found["passages"][0]["head_scores"].size(), 1u);
  EXPECT_EQ(found["num_contexts"], 2);

  ATTNDB_ASSERT_OK_AND_ASSIGN(const FindResult all, db_->Find(model_.spec(), query));
  ASSERT_EQ(attndb_db_find(handle_.get(), &spec_, &head_, &tensor_, 1, 100, nullptr, &text), 0);
  EXPECT_EQ(text, internal::ToJson(all));
  attndb_free(text);
}

TEST_F(CApiFindTest, ATitleAndANoteAreStoredAndGivenBack) {
  const test::Tokens prompt = test::Concat(test::ToyModel::Tokens(300, 1), test::Tokens{7, 8, 9});
  attndb_session* session = nullptr;
  ASSERT_EQ(attndb_db_create_session(handle_.get(), &spec_, prompt.data(), prompt.size(), nullptr,
                                     &session, nullptr),
            0);
  attndb_store_options options = {.struct_size = sizeof options, .name = "c"};
  options.title = "What is it?";
  options.note = "a\0b";
  options.note_bytes = 3;
  EXPECT_EQ(attndb_db_store(handle_.get(), session, prompt.data(), 300, &options, nullptr), 0)
      << attndb_last_error();
  options.name = nullptr;
  options.title = "two\nlines";
  EXPECT_EQ(attndb_db_store(handle_.get(), session, prompt.data(), 300, &options, nullptr),
            ATTNDB_INVALID_ARGUMENT);
  attndb_session_free(session);

  char* note = nullptr;
  size_t note_bytes = 99;
  ASSERT_EQ(attndb_db_note(handle_.get(), "c", &note, &note_bytes), 0);
  EXPECT_EQ(std::string(note, note_bytes + 1), std::string("a\0b\0", 4));
  attndb_free(note);
  ASSERT_EQ(attndb_db_note(handle_.get(), "a", &note, &note_bytes), 0);
  EXPECT_EQ(note_bytes, 0u);
  EXPECT_STREQ(note, "");
  attndb_free(note);
  EXPECT_EQ(attndb_db_note(handle_.get(), "none", &note, &note_bytes), ATTNDB_NOT_FOUND);
  EXPECT_EQ(attndb_db_note(handle_.get(), "a", nullptr, &note_bytes), ATTNDB_INVALID_ARGUMENT);
  EXPECT_EQ(attndb_db_note(handle_.get(), "a", &note, nullptr), ATTNDB_INVALID_ARGUMENT);

  char* text = nullptr;
  ASSERT_EQ(attndb_db_describe(handle_.get(), "c", &text), 0);
  const nlohmann::json described = nlohmann::json::parse(text);
  attndb_free(text);
  EXPECT_EQ(described["title"], "What is it?");
  EXPECT_EQ(described["continues"], static_cast<int64_t>(db_->Describe("a")->id));
  ASSERT_EQ(attndb_db_describe(handle_.get(), "a", &text), 0);
  EXPECT_TRUE(nlohmann::json::parse(text)["continues"].is_null());
  attndb_free(text);
}

TEST_F(CApiFindTest, RoomIsAskedForAndContextsAreRenamed) {
  const test::Tokens prompt = test::Concat(test::ToyModel::Tokens(300, 1), test::Tokens{7, 8, 9});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const RoomReport expected,
                              db_->CheckRoom(model_.spec(), prompt, {.checkpoint_tokens = 2}));
  const attndb_room_options options = {.struct_size = sizeof options, .checkpoint_tokens = 2};
  char* text = nullptr;
  ASSERT_EQ(
      attndb_db_check_room(handle_.get(), &spec_, prompt.data(), prompt.size(), &options, &text), 0)
      << attndb_last_error();
  EXPECT_EQ(text, internal::ToJson(expected));
  attndb_free(text);
  EXPECT_EQ(expected.num_reused, 300u);
  ASSERT_EQ(attndb_db_set_quota(handle_.get(), 1), 0);
  ASSERT_EQ(attndb_db_pin(handle_.get(), "a", 1), 0);
  EXPECT_EQ(
      attndb_db_check_room(handle_.get(), &spec_, prompt.data(), prompt.size(), nullptr, nullptr),
      ATTNDB_RESOURCE_EXHAUSTED);

  ASSERT_EQ(attndb_db_rename(handle_.get(), "a", "яблоко"), 0);
  EXPECT_EQ(db_->Describe("яблоко")->num_tokens, 300u);
  EXPECT_EQ(attndb_db_rename(handle_.get(), "яблоко", "b"), ATTNDB_ALREADY_EXISTS);
  EXPECT_EQ(attndb_db_rename(handle_.get(), "a", "c"), ATTNDB_NOT_FOUND);
  EXPECT_EQ(attndb_db_rename(handle_.get(), "b", nullptr), ATTNDB_INVALID_ARGUMENT);
  EXPECT_EQ(attndb_db_check_place(handle_.get()), ATTNDB_OK);
  EXPECT_EQ(attndb_db_check_place(nullptr), ATTNDB_INVALID_ARGUMENT);
}

TEST_F(CApiFindTest, WhatCannotBeReadIsNamed) {
  char* text = nullptr;
  const auto fails = [&](attndb_code code, attndb_code expected, const char* says) {
    EXPECT_EQ(code, expected) << says;
    EXPECT_THAT(attndb_last_error(), HasSubstr(says));
    EXPECT_EQ(text, nullptr);
  };
  const auto find = [&](const attndb_find_options* options) {
    return attndb_db_find(handle_.get(), &spec_, &head_, &tensor_, 1, 0, options, &text);
  };
  fails(attndb_db_find(nullptr, &spec_, &head_, &tensor_, 1, 0, nullptr, &text),
        ATTNDB_INVALID_ARGUMENT, "db is NULL");
  fails(attndb_db_find(handle_.get(), nullptr, &head_, &tensor_, 1, 0, nullptr, &text),
        ATTNDB_INVALID_ARGUMENT, "spec is NULL");
  fails(attndb_db_find(handle_.get(), &spec_, nullptr, &tensor_, 1, 0, nullptr, &text),
        ATTNDB_INVALID_ARGUMENT, "heads is NULL");
  fails(attndb_db_find(handle_.get(), &spec_, &head_, nullptr, 1, 0, nullptr, &text),
        ATTNDB_INVALID_ARGUMENT, "q is NULL");
  EXPECT_EQ(attndb_db_find(handle_.get(), &spec_, &head_, &tensor_, 1, 0, nullptr, nullptr),
            ATTNDB_INVALID_ARGUMENT);
  attndb_find_options options = {};
  fails(find(&options), ATTNDB_INVALID_ARGUMENT, "attndb_find_options.struct_size is 0");
  options.struct_size = sizeof options;
  options.num_contexts = 1;
  fails(find(&options), ATTNDB_INVALID_ARGUMENT, "attndb_find_options.contexts is NULL");
  const char* names[] = {"a", nullptr};
  options.contexts = names;
  options.num_contexts = 2;
  fails(find(&options), ATTNDB_INVALID_ARGUMENT, "attndb_find_options.contexts[1] is NULL");
  names[1] = "nobody";
  fails(find(&options), ATTNDB_NOT_FOUND, "nobody");
  options.num_contexts = 1;
  options.passage_tokens = 7;
  fails(find(&options), ATTNDB_INVALID_ARGUMENT, "passage_tokens is 7");

  attndb_session* session = nullptr;
  const auto over = [&](const char* const* contexts, size_t count) {
    return attndb_db_create_session_over(handle_.get(), &spec_, contexts, count, nullptr, &session);
  };
  fails(over(nullptr, 1), ATTNDB_INVALID_ARGUMENT, "contexts is NULL");
  fails(over(nullptr, 0), ATTNDB_INVALID_ARGUMENT, "0 contexts");
  fails(over(names, 2), ATTNDB_NOT_FOUND, "nobody");
  names[1] = "#1";
  fails(over(names, 2), ATTNDB_INVALID_ARGUMENT, "named twice");
  fails(attndb_db_create_session_over(nullptr, &spec_, names, 1, nullptr, &session),
        ATTNDB_INVALID_ARGUMENT, "db is NULL");
  fails(attndb_db_create_session_over(handle_.get(), &spec_, names, 1, nullptr, nullptr),
        ATTNDB_INVALID_ARGUMENT, "session is NULL");
  EXPECT_EQ(session, nullptr);
  EXPECT_EQ(attndb_session_next_position(nullptr), 0);
}

}  // namespace
}  // namespace attndb
