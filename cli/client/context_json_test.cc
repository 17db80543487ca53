// Goal:   a context crosses a wire unchanged; a wrong one is refused, with the field's name.
// Method: a context with every field set, to JSON and back; each field in turn of every wrong type.
#include "cli/client/context_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace attndb::cli {
namespace {

using testing::HasSubstr;

ContextInfo Whole() {
  ContextInfo context;
  context.id = static_cast<ContextId>(12);
  context.name = "book/1";
  context.num_tokens = 2048;
  context.kv_bytes = 1 << 20;
  context.file_bytes = uint64_t{3} << 40;
  context.own_bytes = 7;
  context.companion_bytes = 9;
  context.derived_bytes = {{"planes", 8}, {"pq", 1}};
  context.num_pending_companions = 2;
  context.retained_bytes = 3;
  context.query_sample_bytes = 4;
  context.created_us = 1'700'000'000'000'000;
  context.last_access_us = 1'700'000'000'000'001;
  context.ttl_seconds = 0;
  context.pinned = true;
  context.expired = true;
  context.damaged = true;
  context.title = "What is it?";
  context.continues = static_cast<ContextId>(3);
  context.text_layout = {TextForm::kDocument, {{TextRole::kUser, {3, 2048}}}};
  context.first_position = 5;
  context.kv_dtype = DType::kBFloat16;
  context.unrotated_keys = true;
  context.fingerprint = std::string("\x01\xFF\x00z", 4);
  context.model_name = "Toy";
  context.model_path = "/models/toy.gguf";
  context.num_layers = 30;
  context.rope_scaling = "yarn:factor=4";
  context.non_finite_heads = {"layer 3 head 1"};
  context.cuts = {{.at = 100, .dropped = {{4, 10}, {20, 30}}}};
  context.num_dropped = 16;
  context.segments = {{.segment_id = 3,
                       .num_tokens_used = 2000,
                       .num_tokens = 2048,
                       .file_bytes = 11,
                       .num_contexts = 2,
                       .damage = "page 3",
                       .companions = {{.kind = "planes", .file_bytes = 8}}}};
  return context;
}

TEST(ContextJsonTest, AContextComesBackAsItIs) {
  for (const ContextInfo& context : {Whole(), ContextInfo()}) {
    const Result<ContextInfo> back = ContextFromJson(Json::parse(context.ToJson()));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->ToJson(), context.ToJson());
  }
}

TEST(ContextJsonTest, WhatIsNotThereIsAsAContextHasIt) {
  const Result<ContextInfo> context = ContextFromJson({{"id", 0U}});
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ(context->ToJson(), ContextInfo().ToJson());
}

TEST(ContextJsonTest, EachFieldOfAWrongTypeIsRefused) {
  const Json whole = Json::parse(Whole().ToJson());
  const std::vector<Json> values = {true,
                                    -1,
                                    1.5,
                                    std::numeric_limits<uint64_t>::max(),
                                    "text",
                                    Json::array({Json()}),
                                    Json::array({Json::array()}),
                                    Json::object({{"x", Json()}})};
  for (const auto& [name, value] : whole.items()) {
    size_t num_refused = 0;
    for (const Json& wrong : values) {
      Json changed = whole;
      changed[name] = wrong;
      const Result<ContextInfo> context = ContextFromJson(changed);
      if (context.ok()) continue;
      ++num_refused;
      EXPECT_EQ(context.status().code(), StatusCode::kIoError);
      EXPECT_THAT(context.status().message(), HasSubstr("the server sent"));
    }
    EXPECT_GE(num_refused, 5U) << name;
  }
  for (const Json& wrong : {Json(), Json(1), Json::array(), Json("x"), Json::object()}) {
    EXPECT_FALSE(ContextFromJson(wrong).ok());
  }
}

TEST(ContextJsonTest, RangesRunForward) {
  for (const char* const range : {"[1]", "[2, 1]", "[1, 1]", "[-1, 2]", "[1, 2, 3]", "{}"}) {
    const Json cut = {{"id", 0U},
                      {"cuts", Json::array({{{"at", 9}, {"dropped", {Json::parse(range)}}}})}};
    EXPECT_FALSE(ContextFromJson(cut).ok()) << range;
  }
}

TEST(ContextJsonTest, TextsDoNotReachATerminalsControls) {
  const Result<ContextInfo> context =
      ContextFromJson({{"id", 0U}, {"name", "a\x1b[2Jb\n"}, {"rope_scaling", "\x7f"}});
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ(context->name, "a?[2Jb?");
  EXPECT_EQ(context->rope_scaling, "?");
}

TEST(ContextJsonTest, CountsAreWholeNumbers) {
  EXPECT_EQ(*CountFromJson({{"n", 3U}}, "n"), 3U);
  EXPECT_EQ(*CountFromJson(Json::object(), "n"), 0U);
  EXPECT_FALSE(CountFromJson({{"n", "3"}}, "n").ok());
  EXPECT_FALSE(CountFromJson({{"n", -3}}, "n").ok());
}

}  // namespace
}  // namespace attndb::cli
