// Goal:   the C API's texts are JSON with the names of the C++ fields.
// Method: parsed back.
#include "api/c_api_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/c_api_call.h"
#include "api/db_test_util.h"
#include "attndb/c_api.h"

namespace attndb::internal {
namespace {

using nlohmann::json;

TEST(CApiJsonTest, AContextHasAllItsFields) {
  ContextInfo context;
  context.id = static_cast<ContextId>(7);
  context.name = "book";
  context.num_tokens = 9;
  context.ttl_seconds = 60;
  context.rope_scaling = "yarn:freq_scale=0.5";
  context.derived_bytes = {{"pq_8x8", 5}};
  context.segments.push_back({.segment_id = 3, .damage = "checksum"});
  const json parsed = json::parse(context.ToJson());
  EXPECT_EQ(parsed["id"], 7);
  EXPECT_EQ(parsed["name"], "book");
  EXPECT_EQ(parsed["num_tokens"], 9);
  EXPECT_EQ(parsed["ttl_seconds"], 60);
  EXPECT_EQ(parsed["kv_dtype"], "float16");
  EXPECT_EQ(parsed["rope_scaling"], "yarn:freq_scale=0.5");
  EXPECT_EQ(parsed["derived_bytes"], (json{{"pq_8x8", 5}}));
  EXPECT_EQ(parsed["segments"][0]["segment_id"], 3);
  EXPECT_EQ(parsed["segments"][0]["damage"], "checksum");
  context.ttl_seconds.reset();
  EXPECT_TRUE(json::parse(context.ToJson())["ttl_seconds"].is_null());
  EXPECT_EQ(json::parse(ToJson(std::span<const ContextInfo>())).size(), 0U);
}

class CApiStatsTest : public test::DBFixture {};

TEST_F(CApiStatsTest, SayWhichContextsWereEvicted) {
  ATTNDB_ASSERT_OK(StoreTokens(test::ToyModel::Tokens(100, 1), {.name = "a"}));
  ATTNDB_ASSERT_OK(db_->SetQuota(db_->Stats()->file_bytes));
  ATTNDB_ASSERT_OK(StoreTokens(test::ToyModel::Tokens(100, 2), {.name = "b"}));
  attndb_db handle{*db_};
  char* text = nullptr;
  ASSERT_EQ(attndb_db_stats(&handle, &text), ATTNDB_OK);
  const json stats = json::parse(text);
  attndb_free(text);
  EXPECT_EQ(stats["num_evictions"], 1);
  EXPECT_EQ(stats["evicted"], (json{"a"}));
}

TEST(CApiJsonTest, BytesThatAreNoUtf8AreStillJson) {
  ModelSpec spec;
  spec.fingerprint = "\xFF";
  spec.layers.resize(1);
  const json parsed = json::parse(ToJson(spec));
  EXPECT_EQ(parsed["layers"][0]["rope_layout"], "none");
  EXPECT_EQ(parsed["fingerprint"], "hex:ff");
}

TEST(CApiJsonTest, AReportListsItsDamages) {
  VerifyReport report;
  EXPECT_EQ(json::parse(ToJson(report))["ok"], true);
  report.damages.push_back({1, "segments/1", "checksum", {"book"}});
  const json parsed = json::parse(ToJson(report));
  EXPECT_EQ(parsed["ok"], false);
  EXPECT_EQ(parsed["damages"][0]["contexts"][0], "book");
}

TEST(CApiJsonTest, ABuildsReportHasAllItsFields) {
  const BuildReport report = {.kind = "graph",
                              .num_built = 1,
                              .num_present = 2,
                              .num_too_short = 3,
                              .num_missing = 4,
                              .file_bytes = 5,
                              .seconds = 0.5};
  EXPECT_EQ(json::parse(ToJson(report)), (json{{"kind", "graph"},
                                               {"num_built", 1},
                                               {"num_present", 2},
                                               {"num_too_short", 3},
                                               {"num_missing", 4},
                                               {"file_bytes", 5},
                                               {"seconds", 0.5}}));
}

TEST(CApiJsonTest, ALayersFiguresAreThere) {
  LayerExplain layer;
  layer.plan = "full";
  layer.bytes_touched = 12;
  EXPECT_EQ(json::parse(ToJson(layer))["plan"], "full");
  EXPECT_EQ(json::parse(ToJson(layer))["bytes_touched"], 12);
}

}  // namespace
}  // namespace attndb::internal
