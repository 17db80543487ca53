// Goal:   no call that writes swallows an error: one that did not begin has changed nothing, and
//         one that is not acknowledged is told to the caller.
// Method: each call by itself, on a catalog whose folder is found gone before its transaction, or
//         between its commit and the word that it is durable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

constexpr ContextId kFirst{1};
constexpr SegmentId kSegment = 1;

// The initial state of each test: two contexts, a companion, and a wish for another one.
class WrittenCatalog : public CatalogHarness {
 public:
  WrittenCatalog() {
    MustPublish(Range(0, 200), {.name = "first"});
    MustPublish(Range(0, 300), {.name = "second", .base = kFirst, .num_shared = 200});
    now_us += 10;
    MustPublish(Range(1000, 10), {.name = "short", .ttl = std::chrono::seconds(1)});
    Catalog& catalog = **this;
    const uint64_t generation = catalog.companions()->ReserveGeneration().value();
    (void)catalog.companions()->Publish(kSegment, Companion(generation)).value();
    EXPECT_TRUE(catalog.companions()->AddWish(kSegment, "graph").ok());
    EXPECT_TRUE(catalog.owners()->DeclareEqual(tenant(), "a", "b").ok());
    MustPublish(Range(3000, 10));
    torn_ = SegmentIds().back();
    EXPECT_TRUE(catalog.segments()->Quarantine(torn_, "torn", 5).ok());
    const ContextId gone = MustPublish(Range(2000, 10));
    unused_ = SegmentIds().back();
    (void)catalog.contexts()->Drop(tenant(), gone).value();
    now_us += 10;
    catalog.contexts()->Touch(kFirst);
  }

  // One that no context has any more.
  SegmentId unused() const { return unused_; }
  SegmentId torn() const { return torn_; }

  static CompanionRecord Companion(uint64_t generation) {
    return {.kind = "planes", .generation = generation, .required = false, .file_bytes = 100};
  }

 private:
  SegmentId unused_ = 0;
  SegmentId torn_ = 0;
};

struct Write {
  const char* name;
  std::function<Status(WrittenCatalog&)> call;
};

void PrintTo(const Write& write, std::ostream* out) { *out << write.name; }

template <typename T>
Status StatusOf(const Result<T>& result) {
  return result.status();
}

const Write kWrites[] = {
    {"Publish", [](WrittenCatalog& c) { return StatusOf(c.Publish(Range(5, 50))); }},
    {"Pin", [](WrittenCatalog& c) { return c->contexts()->Pin(c.tenant(), kFirst, true); }},
    {"SetTtl",
     [](WrittenCatalog& c) {
       return c->contexts()->SetTtl(c.tenant(), kFirst, std::chrono::seconds(9));
     }},
    {"Rename", [](WrittenCatalog& c) { return c->contexts()->Rename(c.tenant(), kFirst, "new"); }},
    {"Drop", [](WrittenCatalog& c) { return StatusOf(c->contexts()->Drop(c.tenant(), kFirst)); }},
    {"Expire",
     [](WrittenCatalog& c) {
       c.now_us += 10'000'000;
       return StatusOf(c->contexts()->Expire({}));
     }},
    {"Remove",
     [](WrittenCatalog& c) { return StatusOf(c->segments()->Remove(std::array{c.unused()})); }},
    {"Quarantine",
     [](WrittenCatalog& c) { return StatusOf(c->segments()->Quarantine(kSegment, "torn", 10)); }},
    {"Lift", [](WrittenCatalog& c) { return c->segments()->Lift(c.torn()); }},
    {"ReplaceRun",
     [](WrittenCatalog& c) {
       MergeRequest request;
       request.run = {{1, 200}, {2, 100}};
       request.merged.id = c->segments()->ReserveId().value();
       request.merged.num_tokens = 300;
       return StatusOf(c->segments()->ReplaceRun(request));
     }},
    {"UnsettleForLength",
     [](WrittenCatalog& c) { return c->segments()->UnsettleForLength(c.tenant(), 4096); }},
    {"Settle",
     [](WrittenCatalog& c) {
       return c->segments()->Settle(c->segments()->Unsettled(c.tenant()).value());
     }},
    {"PublishCompanion",
     [](WrittenCatalog& c) {
       const uint64_t generation = c->companions()->ReserveGeneration().value();
       return StatusOf(c->companions()->Publish(kSegment, WrittenCatalog::Companion(generation)));
     }},
    {"DropCompanion",
     [](WrittenCatalog& c) {
       const SegmentRecord segment = c->segments()->Get(kSegment).value();
       return StatusOf(
           c->companions()->Drop(kSegment, "planes", segment.companions.at(0).generation));
     }},
    {"DropKind", [](WrittenCatalog& c) { return c->companions()->DropKind("planes"); }},
    {"DropAll", [](WrittenCatalog& c) { return StatusOf(c->companions()->DropAll(c.tenant())); }},
    {"AddWish", [](WrittenCatalog& c) { return c->companions()->AddWish(2, "graph"); }},
    {"EnsureTenant",
     [](WrittenCatalog& c) { return StatusOf(c->owners()->EnsureTenant("another")); }},
    {"EnsureModel",
     [](WrittenCatalog& c) { return StatusOf(c->owners()->EnsureModel(TestSpec("other"))); }},
    {"SetQuota", [](WrittenCatalog& c) { return c->owners()->SetQuota(c.tenant(), 1 << 20); }},
    {"DeclareEqual",
     [](WrittenCatalog& c) { return c->owners()->DeclareEqual(c.tenant(), "c", "d"); }},
    {"RevokeEqual",
     [](WrittenCatalog& c) { return c->owners()->RevokeEqual(c.tenant(), "a", "b"); }},
    {"FlushTouches", [](WrittenCatalog& c) { return c->FlushTouches(); }},
};

class CatalogWrites : public ::testing::TestWithParam<Write> {
 protected:
  // From the call on, the folder is gone when it is asked for the given time.
  Status CallWithout(int ask) {
    int num_asked = 0;
    harness_.check_place = [&num_asked, ask] {
      return ++num_asked == ask ? Status::IoError("the folder is gone") : Status();
    };
    Status status = GetParam().call(harness_);
    harness_.check_place = nullptr;
    EXPECT_GE(num_asked, ask) << "it does not commit";
    return status;
  }

  WrittenCatalog harness_;
};

TEST_P(CatalogWrites, WhatCannotBeginChangesNothing) {
  const std::string before = CatalogHarness::Dump(*harness_, harness_.spec()).value();
  const int64_t now_us = harness_.now_us;
  EXPECT_THAT(CallWithout(1), test::FailsWith(StatusCode::kIoError, "the folder is gone"));
  harness_.now_us = now_us;
  EXPECT_EQ(CatalogHarness::Dump(*harness_, harness_.spec()).value(), before);
}

TEST_P(CatalogWrites, WhatIsNotAcknowledgedIsToldToTheCaller) {
  EXPECT_THAT(CallWithout(2), test::FailsWith(StatusCode::kIoError, "the folder is gone"));
  EXPECT_THAT(harness_->Verify().value(), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Calls, CatalogWrites, ::testing::ValuesIn(kWrites),
                         [](const auto& write) { return std::string(write.param.name); });

}  // namespace
}  // namespace attndb::store
