// Goal:   a prompt, or a name, finds the stored contexts that fit its model and position. A search
//         goes through shared segments once.
// Method: small stores of random segments, looked up by prompts that share some of their tokens.
#include "store/lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::HasSubstr;

class LookupTest : public StoreTest {
 protected:
  // Removes the files of the context's only segment, and opens the store anew.
  void RemoveFiles(const std::string& name, const DBOptions& options) {
    const storage::ObjectName segment = {.segment_id =
                                             FirstOf(name, 1).chain.entries[0].segment->id()};
    store_.reset();
    for (const storage::ObjectFile file :
         {storage::ObjectFile::kData, storage::ObjectFile::kManifest}) {
      std::filesystem::remove(dir_.File("store/segments/" + storage::FileNameOf(segment, file)));
    }
    Open(options);
  }
};

TEST_F(LookupTest, SharedSegmentsAreSearchedOnce) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Store({1, 2}, {.name = "b"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SearchSet set, store_->lookup()->OpenForSearch("t", spec_, {}));
  ASSERT_EQ(set.contexts.size(), 2u);
  uint64_t num_tokens = 0, num_uses = 0;
  for (const SearchSet::Run& run : set.runs) {
    num_tokens += run.num_tokens;
    num_uses += run.uses.size();
  }
  EXPECT_EQ(num_tokens, 2 * kTokens);
  EXPECT_EQ(num_uses, set.runs.size() + 1);
  ModelSpec other = spec_;
  other.fingerprint = "another";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SearchSet none,
                              store_->lookup()->OpenForSearch("t", other, {}));
  ASSERT_EQ(none.skipped.size(), 2u);
  EXPECT_EQ(none.skipped[0].reason, "of another model");
}

TEST_F(LookupTest, ANamedContextFitsItsModelAndItsPosition) {
  using test::FailsWith;
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  EXPECT_THAT(store_->lookup()->OpenNamed("t", spec_, "a", 7),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("begins at position 0")));
  ModelSpec other = spec_;
  other.fingerprint = "another";
  EXPECT_THAT(store_->lookup()->OpenNamed("t", other, "a", 0),
              FailsWith(StatusCode::kOtherModel, HasSubstr("of another model")));
  EXPECT_THAT(store_->lookup()->OpenNamed("t", spec_, "b", 0),
              FailsWith(StatusCode::kNotFound, HasSubstr("b")));
}

TEST_F(LookupTest, APromptIsReusedAsFarAsItAgrees) {
  ATTNDB_ASSERT_OK(Store({1}).status());
  std::vector<TokenId> tokens = Tokens({1, 2});
  tokens[kTokens - 3] += 1;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix found,
                              store_->lookup()->OpenPrefix("t", spec_, tokens, {}));
  EXPECT_EQ(found.chain.tokens.size(), kTokens - 3);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefixExplain explain,
                              store_->lookup()->ExplainPrefix("t", spec_, tokens, {}));
  EXPECT_EQ(explain.num_reused, kTokens - 3);
}

TEST_F(LookupTest, OfNamedContextsEachIsSearchedOnceAndTheOldestFirst) {
  for (const uint64_t tail : {1u, 2u, 3u}) {
    ATTNDB_ASSERT_OK(Store({tail}, {.name = std::to_string(tail)}).status());
  }
  const std::string names[] = {"3", "1", "3"};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SearchSet set,
                              store_->lookup()->OpenForSearch("t", spec_, names));
  ASSERT_EQ(set.contexts.size(), 2u);
  EXPECT_EQ(set.contexts[0].name, "1");
  EXPECT_EQ(set.contexts[1].name, "3");
  const std::string unknown[] = {"1", "4"};
  EXPECT_EQ(store_->lookup()->OpenForSearch("t", spec_, unknown).status().code(),
            StatusCode::kNotFound);
}

TEST_F(LookupTest, TheFirstContextThatHasAllOfATextOwnsIt) {
  SearchSet::Run run;
  run.uses = {{0, 0, 40}, {1, 0, 80}};
  EXPECT_EQ(run.Owner({30, 40}).context, 0u);
  EXPECT_EQ(run.Owner({30, 41}).context, 1u);
  EXPECT_EQ(run.Owner({70, 80}).context, 1u);
}

TEST_F(LookupTest, AContextIsFoundWholeIfOneTokenIsLeftToRun) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  EXPECT_TRUE(FirstOf("a", kTokens).is_whole);
  EXPECT_TRUE(FirstOf("a", kTokens - 1).is_whole);
  EXPECT_FALSE(FirstOf("a", kTokens - 2).is_whole);
}

// The first tokens of a chat template are no use of the context that has them.
TEST_F(LookupTest, AWholeContextIsUsedAndABlockOfALongOne) {
  const auto now_us = std::make_shared<int64_t>(1'700'000'000'000'000);
  Open({.background_builds = false, .clock = [now_us] { return *now_us; }});
  MakeTail(9, 100);
  ATTNDB_ASSERT_OK(store_->publisher()->Store(Behind({}, 9, {.name = "long"})).status());
  ATTNDB_ASSERT_OK(Store({1}, {.name = "short"}).status());
  const auto is_use = [&](const std::string& context, const std::function<void()>& look) {
    *now_us += 1'000'000;
    look();
    return store_->admin()->Describe("t", context)->last_access_us == *now_us;
  };
  const auto is_use_of_first = [&](const std::string& context, uint64_t num_tokens) {
    return is_use(context, [&] { (void)FirstOf(context, num_tokens); });
  };
  EXPECT_TRUE(is_use_of_first("long", 64));
  EXPECT_FALSE(is_use_of_first("long", 63));
  EXPECT_TRUE(is_use_of_first("short", kTokens - 1));
  EXPECT_FALSE(is_use_of_first("short", kTokens - 2));
  EXPECT_TRUE(is_use(
      "long", [&] { ATTNDB_EXPECT_OK(store_->lookup()->OpenNamed("t", spec_, "long", 0)); }));
  EXPECT_FALSE(is_use("long", [&] {
    ATTNDB_EXPECT_OK(store_->lookup()->PeekPrefix("t", spec_, Tail(9).tokens, {}));
  }));
}

TEST_F(LookupTest, OneTokenOfAWholePromptIsNotReused) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefixExplain explain,
                              store_->lookup()->ExplainPrefix("t", spec_, Tokens({1}), {}));
  EXPECT_EQ(explain.num_prompt_tokens, kTokens);
  EXPECT_EQ(explain.num_reused, kTokens - 1);
  EXPECT_EQ(explain.context, "a");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefixExplain of_nobody,
                              store_->lookup()->ExplainPrefix("u", spec_, Tokens({1}), {}));
  EXPECT_EQ(of_nobody.num_reused, 0u);
  EXPECT_EQ(of_nobody.context, "");
}

TEST_F(LookupTest, TheTextOfAContextIsToldWithItsModelAndItsCuts) {
  StoreRequest request = Behind({}, 1, {.name = "a"});
  request.cuts = {{.at = 10, .dropped = {{2, 5}}}};
  ATTNDB_ASSERT_OK(store_->publisher()->Store(request).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const StoredText text, store_->lookup()->TextOf("t", "a"));
  EXPECT_EQ(text.record.name, "a");
  EXPECT_EQ(text.spec.fingerprint, spec_.fingerprint);
  EXPECT_EQ(text.tokens, Tokens({1}));
  EXPECT_EQ(text.cuts, request.cuts);
}

TEST_F(LookupTest, ModelsThatDifferAreToldByWhatPeopleCallThem) {
  StoreRequest request = Behind({}, 1, {.name = "a"});
  request.spec.source = {.name = "Toy", .path = ""};
  ATTNDB_ASSERT_OK(store_->publisher()->Store(request).status());
  ModelSpec other = spec_;
  other.fingerprint = "another";
  other.source = {.name = "Other", .path = ""};
  EXPECT_THAT(
      store_->lookup()->OpenNamed("t", other, "a", 0),
      test::FailsWith(StatusCode::kOtherModel, HasSubstr("made by 'Toy', asked by 'Other'")));
}

// A reader looks again, as the writer may have merged the context meanwhile; and it ends.
TEST_F(LookupTest, AReaderIsToldThatANamedContextCanNotBeOpened) {
  ATTNDB_ASSERT_OK(Store({2}, {.name = "whole"}).status());
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  RemoveFiles("a", {.read_only = true});
  EXPECT_FALSE(store_->lookup()->OpenNamed("t", spec_, "a", 0).ok());
  const std::vector<TokenId> tokens = Tokens({1});
  EXPECT_FALSE(store_->lookup()->OpenPrefix("t", spec_, tokens, {.context = "a"}).ok());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix none,
                              store_->lookup()->OpenPrefix("t", spec_, tokens, {}));
  EXPECT_EQ(none.context, ContextId::kNone);
}

TEST_F(LookupTest, AWriterLooksForAnotherContextInPlaceOfADamagedOne) {
  for (const char* const name : {"a", "b"}) {  // Each with a segment of its own.
    ATTNDB_ASSERT_OK(store_->publisher()->Store(Behind({}, 1, {.name = name})).status());
  }
  RemoveFiles("b", {});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix found,
                              store_->lookup()->OpenPrefix("t", spec_, Tokens({1}), {}));
  EXPECT_EQ(found.chain.tokens, Tokens({1}));
  EXPECT_THAT(store_->lookup()->OpenPrefix("t", spec_, Tokens({1}), {.context = "b"}),
              test::FailsWith(StatusCode::kCorruption, HasSubstr("")));
  EXPECT_TRUE(store_->admin()->Describe("t", "b")->damaged);
}

TEST_F(LookupTest, ALookupThatMeetsDamageAgainAndAgainGivesUp) {
  constexpr uint64_t kMaxAttempts = 8;
  ATTNDB_ASSERT_OK(Store({2}, {.name = "whole"}).status());
  for (uint64_t i = 0; i <= kMaxAttempts; ++i) {  // Each with a segment of its own.
    ATTNDB_ASSERT_OK(store_->publisher()->Store(Behind({}, 1)).status());
  }
  const std::string whole =
      ObjectPath({.segment_id = FirstOf("whole", 1).chain.entries[0].segment->id()});
  store_.reset();
  for (const auto& entry : std::filesystem::directory_iterator(dir_.File("store/segments"))) {
    if (entry.path().stem() != std::filesystem::path(whole).stem()) {
      std::filesystem::remove(entry.path());
    }
  }
  Open({.background_builds = false});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix none,
                              store_->lookup()->OpenPrefix("t", spec_, Tokens({1}), {}));
  EXPECT_EQ(none.context, ContextId::kNone);
  EXPECT_EQ(store_->Stats("t", true)->num_damaged_segments, kMaxAttempts);
}

}  // namespace
}  // namespace attndb::store
