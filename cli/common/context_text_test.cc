// Goal:   contexts are shown whole: names, ages, damage.
// Method: one made-up context; whole lines compared.
#include "cli/common/context_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/common/display_width.h"

namespace attndb::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kNow = 2'000'000'000'000'000;

ContextInfo Book() {
  ContextInfo context;
  context.id = static_cast<ContextId>(12);
  context.name = "book";
  context.num_tokens = 2048;
  context.file_bytes = 3 << 20;
  context.own_bytes = 1 << 10;
  context.created_us = kNow - 180'000'000;
  context.last_access_us = kNow;
  context.fingerprint = "0123456789abcdef0123456789abcdef";
  context.model_name = "Toy";
  context.model_path = "/models/toy.gguf";
  return context;
}

TEST(ContextTextTest, AnUnnamedContextGoesByItsNumber) {
  ContextInfo context = Book();
  EXPECT_EQ(NameOf(context), "book");
  context.name.clear();
  EXPECT_EQ(NameOf(context), "#12");
}

TEST(ContextTextTest, TheTableShowsSizeAgeAndState) {
  ContextInfo damaged = Book();
  damaged.name = "x";
  damaged.damaged = true;
  damaged.ttl_seconds = 3600;
  EXPECT_EQ(ContextTable({Book(), damaged}, kNow),
            "NAME  TOKENS      OWN     SIZE  CREATED    USED      EXPIRES  STATE    MODEL\n"
            "book   2,048  1.0 KiB  3.0 MiB  3 min ago  just now  never             Toy\n"
            "x      2,048  1.0 KiB  3.0 MiB  3 min ago  just now  1 h      DAMAGED  Toy\n");
}

TEST(ContextTextTest, TheTableFitsATerminal) {
  ContextInfo wide = Book();
  wide.name = std::string(100, 'n');
  wide.model_name = std::string(60, 'm');
  for (const size_t width : {80U, 100U, 132U}) {
    const std::string table = ContextTable({Book(), wide}, kNow, width);
    for (size_t at = 0; at < table.size(); at = table.find('\n', at) + 1) {
      EXPECT_LE(DisplayWidth(table.substr(at, table.find('\n', at) - at)), width) << table;
    }
    EXPECT_THAT(table, HasSubstr("\nbook "));
    EXPECT_THAT(table, HasSubstr("\nnnnnnnnnnnnnnnn"));
    EXPECT_THAT(table, HasSubstr(" STATE"));
  }
}

TEST(ContextTextTest, WhatHasExpiredIsNotShownAsAlive) {
  ContextInfo context = Book();
  context.ttl_seconds = 3600;
  EXPECT_THAT(ContextText(context, kNow), HasSubstr("1 h after the last use\n"));
  context.expired = true;
  EXPECT_THAT(ContextTable({context}, kNow), HasSubstr("1 h      expired  Toy\n"));
  EXPECT_THAT(ContextText(context, kNow), HasSubstr("it has: 1 h after its last use"));
}

TEST(ContextTextTest, TheModelIsNamedAsFarAsItIsKnown) {
  ContextInfo context = Book();
  EXPECT_THAT(ContextText(context, kNow), HasSubstr("Toy (/models/toy.gguf)\n"));
  context.model_name.clear();
  EXPECT_THAT(ContextText(context, kNow), HasSubstr(" /models/toy.gguf\n"));
  context.model_path.clear();
  EXPECT_THAT(ContextText(context, kNow), HasSubstr("(not known)\n"));
}

TEST(ContextTextTest, DescribeShowsSegmentsAndWhatIsWrong) {
  ContextInfo context = Book();
  context.damaged = true;
  context.non_finite_heads = {"layer 3 head 1"};
  SegmentInfo segment;
  segment.segment_id = 7;
  segment.num_tokens_used = 1024;
  segment.num_tokens = 2048;
  segment.damage = "checksum";
  context.segments = {segment};
  const std::string text = ContextText(context, kNow);
  EXPECT_THAT(text, HasSubstr("DAMAGED: it is not served"));
  EXPECT_THAT(text, HasSubstr("layer 3 head 1"));
  EXPECT_THAT(text, HasSubstr("7         1,024  2,048   0 B         0  DAMAGED: checksum"));
}

TEST(ContextTextTest, WhatIsDerivedIsShownByKind) {
  ContextInfo context = Book();
  EXPECT_THAT(ContextText(context, kNow), HasSubstr("none\n"));
  EXPECT_EQ(ToJson(context)["derived_bytes"], Json::object());
  context.derived_bytes = {{"pq_8x8", 2048}, {"key_planes_3", 3 << 20}};
  context.num_pending_companions = 1;
  EXPECT_THAT(ContextText(context, kNow),
              HasSubstr("key_planes_3 3.0 MiB, pq_8x8 2.0 KiB, not built of 1 segment\n"));
  EXPECT_EQ(ToJson(context)["derived_bytes"]["pq_8x8"], 2048);
}

TEST(ContextTextTest, JsonHasNullForNoTtlAndSegmentsOnlyWhereThereAreSome) {
  const Json json = ToJson(Book());
  EXPECT_TRUE(json["ttl_seconds"].is_null());
  EXPECT_FALSE(json.contains("segments"));
  EXPECT_EQ(json["name"], "book");
  EXPECT_EQ(json["id"], 12);
}

TEST(ContextTextTest, AScalingIsShownWhereThereIsOne) {
  ContextInfo context = Book();
  EXPECT_THAT(ContextText(context, kNow), Not(HasSubstr("RoPE")));
  EXPECT_EQ(ToJson(context)["rope_scaling"], "");
  context.rope_scaling = "linear:freq_scale=0.25,attn=1";
  EXPECT_THAT(ContextText(context, kNow),
              HasSubstr("RoPE scaling  linear:freq_scale=0.25,attn=1\n"));
  EXPECT_EQ(ToJson(context)["rope_scaling"], "linear:freq_scale=0.25,attn=1");
}

TEST(ContextTextTest, AFingerprintOfAnyBytesCanBeRead) {
  ContextInfo context = Book();
  context.fingerprint = "\xFF\xFE";
  EXPECT_EQ(ToJson(context)["fingerprint"], "hex:fffe");
  EXPECT_THAT(ContextText(context, kNow), HasSubstr("hex:fffe"));
}

}  // namespace
}  // namespace attndb::cli
