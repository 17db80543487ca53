// Goal:   after any history the catalog answers like a plain map of contexts.
// Method: random publishes of two tenants, growths, replaces, drops, quarantines, merges, expiries
//         and reopenings over small alphabets (so that prefixes collide in every way), against a
//         std::map; after each step random lookups are compared with brute force, at the end Verify
//         finds nothing.
// Replay: ATTNDB_SEED=17 ctest -R db_test
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "common/random.h"
#include "store/catalog/catalog_test_util.h"
#include "store/catalog/cut_bytes.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::store {
namespace {

using Tokens = std::vector<TokenId>;

struct ModelContext {
  Tokens tokens;
  std::vector<Cut> cuts;
  std::string name;
  int64_t first_position = 0;
  std::optional<int64_t> ttl_s;
  int64_t last_access_us = 0;
  bool pinned = false;
  bool damaged = false;
  int64_t number = 0;
  std::vector<ChainLink> chain;
};

uint64_t CommonLength(const Tokens& a, const Tokens& b) {
  return static_cast<uint64_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

class CatalogProperty : public ::testing::TestWithParam<uint64_t> {
 protected:
  CatalogProperty() : random_(test::SeedOr(GetParam())) {}

  // Lengths around block borders, tokens of a small alphabet.
  Tokens RandomTokens(size_t num_tokens) {
    const uint64_t alphabet = 1 + random_.Uniform(3);
    Tokens tokens(num_tokens);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random_.Uniform(alphabet));
    return tokens;
  }
  size_t RandomLength() {
    static constexpr size_t kLengths[] = {1, 2, 5, 63, 64, 65, 100, 127, 128, 129, 200, 256};
    return kLengths[random_.Uniform(std::size(kLengths))];
  }
  // Tokens of a context with a few changes: they share a prefix of random length with it.
  Tokens MutatedTokens() {
    if (contexts_.empty()) return RandomTokens(RandomLength());
    Tokens tokens = AnyContext()->second.tokens;
    tokens.resize(1 + random_.Uniform(tokens.size()));
    const Tokens more = RandomTokens(random_.Uniform(140));
    tokens.insert(tokens.end(), more.begin(), more.end());
    return tokens;
  }
  // Cuts behind those that are there: at token `begin` or later.
  void AddCuts(uint64_t begin, ModelContext* context) {
    while (random_.OneIn(2)) {
      const uint64_t at = std::max<uint64_t>(2, begin) + random_.Uniform(70);
      if (at > context->tokens.size()) return;
      std::vector<bool> gone(at);
      for (const Cut& cut : context->cuts) {
        if (cut.at >= at) return;
        for (const TokenRange& range : cut.dropped) {
          for (uint64_t i = range.begin; i < range.end; ++i) gone[i] = true;
        }
      }
      Cut cut = {at, {}};
      for (uint64_t i = random_.Uniform(4); i + 1 < at && cut.dropped.size() < 2; ++i) {
        if (gone[i]) continue;
        uint64_t end = i + 1;
        while (end + 1 < at && !gone[end] && !random_.OneIn(8)) ++end;
        cut.dropped.push_back({i, end});
        i = end;
      }
      if (cut.dropped.empty()) return;
      context->cuts.push_back(std::move(cut));
      begin = at + 1;
    }
  }
  std::map<int64_t, ModelContext>::iterator AnyContext() {
    return std::next(contexts_.begin(), static_cast<ptrdiff_t>(random_.Uniform(contexts_.size())));
  }

  bool IsUsable(const ModelContext& c) const {
    const bool expired = !c.pinned && c.ttl_s.has_value() &&
                         harness_.now_us - c.last_access_us >= *c.ttl_s * 1'000'000;
    return !c.damaged && !expired;
  }

  void Publish();
  void Add(int64_t new_id, ModelContext added);
  void Drop();
  void Quarantine();
  void Lift();
  void JudgeContexts();
  void Expire();
  void Merge();
  void Touch();
  void PublishForAnother();
  void CheckLookups();
  void CheckList();
  void CheckUses();
  std::string AnyName() { return std::string(1, "abcdef"[random_.Uniform(6)]); }

  CatalogHarness harness_;
  Random random_;
  std::map<int64_t, ModelContext> contexts_;
  std::map<SegmentId, uint64_t> num_sound_;  // By segment that is quarantined.
  // Numbers of all contexts that there ever were; those of the other tenant count apart.
  std::map<int64_t, int64_t> numbers_of_;
  int64_t num_numbered_ = 0;
  int64_t num_others_ = 0;
};

void CatalogProperty::Publish() {
  Published options;
  ModelContext added;
  if (!contexts_.empty() && random_.OneIn(2)) {
    const auto base = AnyContext();
    options.base = static_cast<ContextId>(base->first);
    // Mostly whole contexts go on, as in a chat; else a crop.
    options.num_shared = random_.OneIn(3) ? random_.Uniform(base->second.tokens.size() + 1)
                                          : base->second.tokens.size();
    options.first_position = base->second.first_position;
    added.tokens.assign(base->second.tokens.begin(),
                        base->second.tokens.begin() + static_cast<ptrdiff_t>(options.num_shared));
    const Tokens more = RandomTokens(random_.Uniform(100));
    added.tokens.insert(added.tokens.end(), more.begin(), more.end());
    if (added.tokens.empty()) added.tokens = {1};
    added.cuts = CutsWithin(base->second.cuts, options.num_shared);
    AddCuts(options.num_shared + 1, &added);
    options.drop_base = random_.OneIn(3);
    if (random_.OneIn(3)) options.name = base->second.name;
  } else {
    added.tokens = MutatedTokens();
    if (random_.OneIn(2)) AddCuts(0, &added);
    options.first_position = random_.OneIn(4) ? 7 : 0;
  }
  if (options.name.empty() && random_.OneIn(2)) options.name = AnyName();
  options.replace = random_.OneIn(2);
  options.pin = random_.OneIn(5);
  if (random_.OneIn(3)) options.ttl = std::chrono::seconds(random_.Uniform(20));
  options.cuts = added.cuts;
  const Result<PublishOutcome> outcome = harness_.Publish(added.tokens, options);

  const auto holder = std::ranges::find_if(contexts_, [&](const auto& c) {
    return !options.name.empty() && c.second.name == options.name;
  });
  const auto base = contexts_.find(static_cast<int64_t>(options.base));
  if (base != contexts_.end() && outcome.status().code() == StatusCode::kFailedPrecondition) {
    EXPECT_TRUE(base->second.damaged) << outcome.status();
    return;
  }
  // Growing under drop_base renames the base: then its name is not taken.
  if (holder != contexts_.end() && !options.replace) {
    EXPECT_EQ(outcome.status().code(), StatusCode::kAlreadyExists) << outcome.status();
    return;
  }
  ATTNDB_ASSERT_OK(outcome);
  const auto id = static_cast<int64_t>(outcome->id);
  const bool base_doomed = base != contexts_.end() && options.drop_base &&
                           base->second.name.empty() && !base->second.pinned &&
                           base->second.tokens.size() == options.num_shared;
  std::vector<int64_t> doomed;
  if (holder != contexts_.end()) doomed.push_back(holder->first);
  if (base_doomed) doomed.push_back(base->first);
  EXPECT_EQ(outcome->grown, std::ranges::count(doomed, id) > 0);
  for (const int64_t dropped : doomed) {
    if (dropped != id) {
      EXPECT_TRUE(std::ranges::count(outcome->dropped, static_cast<ContextId>(dropped)));
    }
    contexts_.erase(dropped);
  }
  added.name = options.name;
  added.first_position = options.first_position;
  added.pinned = options.pin;
  added.last_access_us = harness_.now_us;
  if (options.ttl) added.ttl_s = options.ttl->count();
  added.chain = harness_->contexts()->Chain(outcome->id).value();
  added.number = outcome->grown ? numbers_of_.at(id) : ++num_numbered_;
  EXPECT_EQ(static_cast<int64_t>(outcome->number), added.number);
  numbers_of_[id] = added.number;
  Add(id, std::move(added));
}

// The added context mends the lost parts of others with the same tokens.
void CatalogProperty::Add(int64_t new_id, ModelContext added) {
  for (auto& [id, c] : contexts_) {
    uint64_t num_tokens = 0;
    uint64_t end = 0;
    for (const ChainLink& link : c.chain) {
      num_tokens += link.num_tokens_used;
      const auto found = num_sound_.find(link.segment);
      if (found != num_sound_.end() && link.num_tokens_used > found->second) end = num_tokens;
    }
    const std::vector<ChainLink> chain =
        harness_->contexts()->Chain(static_cast<ContextId>(id)).value();
    const bool is_mended = end > 0 && c.first_position == added.first_position &&
                           CommonLength(c.tokens, added.tokens) >= end &&
                           CutsWithin(c.cuts, end) == CutsWithin(added.cuts, end);
    EXPECT_EQ(chain == c.chain, !is_mended);
    c.chain = chain;
  }
  contexts_[new_id] = std::move(added);
  JudgeContexts();
}

void CatalogProperty::Drop() {
  if (contexts_.empty()) return;
  const auto context = AnyContext();
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const DropOutcome outcome,
      harness_->contexts()->Drop(harness_.tenant(), static_cast<ContextId>(context->first)));
  contexts_.erase(context);
  for (const SegmentId segment : outcome.unreferenced) {
    for (const auto& [id, c] : contexts_) {
      for (const ChainLink& link : c.chain) EXPECT_NE(link.segment, segment);
    }
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto removed,
                              harness_->segments()->Remove(outcome.unreferenced));
  EXPECT_EQ(IdsOf(removed), outcome.unreferenced);
}

void CatalogProperty::Quarantine() {
  if (contexts_.empty()) return;
  const auto context = AnyContext();
  const SegmentId segment =
      context->second.chain[random_.Uniform(context->second.chain.size())].segment;
  const uint64_t num_tokens = harness_->segments()->Get(segment)->num_tokens;
  num_sound_[segment] = random_.OneIn(2) ? 0 : random_.Uniform(num_tokens + 1);
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const std::vector<ContextRecord> affected,
      harness_->segments()->Quarantine(segment, "a test said so", num_sound_[segment]));
  JudgeContexts();
  std::vector<int64_t> expected;
  for (const auto& [id, c] : contexts_) {
    const bool has_it = std::ranges::any_of(
        c.chain, [&](const ChainLink& link) { return link.segment == segment; });
    if (has_it && c.damaged) expected.push_back(id);
  }
  std::vector<int64_t> found;
  for (const ContextRecord& record : affected) found.push_back(static_cast<int64_t>(record.id));
  EXPECT_EQ(found, expected);
}

void CatalogProperty::Lift() {
  if (num_sound_.empty()) return;
  const auto lifted =
      std::next(num_sound_.begin(), static_cast<ptrdiff_t>(random_.Uniform(num_sound_.size())));
  ATTNDB_ASSERT_OK(harness_->segments()->Lift(lifted->first));
  num_sound_.erase(lifted);
  JudgeContexts();
}

// Damaged is who uses a token that is not sound.
void CatalogProperty::JudgeContexts() {
  for (auto& [id, c] : contexts_) {
    c.damaged = std::ranges::any_of(c.chain, [&](const ChainLink& link) {
      const auto found = num_sound_.find(link.segment);
      return found != num_sound_.end() && link.num_tokens_used > found->second;
    });
  }
}

void CatalogProperty::Expire() {
  harness_.now_us += static_cast<int64_t>(random_.Uniform(4'000'000));
  const bool any = harness_->contexts()->AnyExpired().value();
  const bool expected = std::ranges::any_of(contexts_, [&](const auto& c) {
    ModelContext good = c.second;
    good.damaged = false;
    return !IsUsable(good);
  });
  EXPECT_EQ(any, expected);
  if (!random_.OneIn(4)) return;  // Let expired ones lie for a while: lookups must pass them over.
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DropOutcome outcome, harness_->contexts()->Expire({}));
  for (const ContextRecord& record : outcome.dropped) {
    auto it = contexts_.find(static_cast<int64_t>(record.id));
    ASSERT_NE(it, contexts_.end());
    it->second.damaged = false;
    EXPECT_FALSE(IsUsable(it->second));
    contexts_.erase(it);
  }
  EXPECT_FALSE(harness_->contexts()->AnyExpired().value());
}

void CatalogProperty::Merge() {
  if (contexts_.empty()) return;
  const auto context = AnyContext();
  if (context->second.damaged || context->second.chain.size() < 2) return;
  MergeRequest request;
  request.run = context->second.chain;
  request.merged.id = harness_->segments()->ReserveId().value();
  request.merged.first_position = context->second.first_position;
  for (const ChainLink& link : request.run) request.merged.num_tokens += link.num_tokens_used;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const MergeOutcome outcome,
                              harness_->segments()->ReplaceRun(request));
  EXPECT_TRUE(std::ranges::count(outcome.changed, static_cast<ContextId>(context->first)));
  for (auto& [id, c] : contexts_)
    c.chain = harness_->contexts()->Chain(static_cast<ContextId>(id)).value();
  EXPECT_EQ(context->second.chain.size(), 1u);
}

void CatalogProperty::Touch() {
  if (contexts_.empty()) return;
  const auto context = AnyContext();
  harness_->contexts()->Touch(static_cast<ContextId>(context->first));
  context->second.last_access_us = harness_.now_us;
}

// Another tenant's contexts leave no trace in this tenant's view.
void CatalogProperty::PublishForAnother() {
  const TenantId tenant = harness_.tenant();
  harness_.set_tenant(harness_->owners()->EnsureTenant("other").value().id);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PublishOutcome outcome, harness_.Publish(MutatedTokens()));
  EXPECT_EQ(static_cast<int64_t>(outcome.number), ++num_others_);
  if (random_.OneIn(2)) {
    ATTNDB_ASSERT_OK(harness_->contexts()->Drop(harness_.tenant(), outcome.id));
  }
  harness_.set_tenant(tenant);
}

void CatalogProperty::CheckLookups() {
  for (int i = 0; i < 3; ++i) {
    const Tokens prompt = MutatedTokens();
    const int64_t first_position = random_.OneIn(4) ? 7 : 0;
    uint64_t expected = 0;
    for (const auto& [id, c] : contexts_) {
      if (c.first_position != first_position || !IsUsable(c)) continue;
      expected = std::max(expected, CommonLength(c.tokens, prompt));
    }
    const std::optional<PrefixMatch> match = harness_.Longest(prompt, first_position);
    ASSERT_EQ(match.has_value() ? match->num_tokens : 0, expected);
    if (!match.has_value()) continue;
    const auto context = contexts_.find(static_cast<int64_t>(match->context));
    ASSERT_NE(context, contexts_.end());
    EXPECT_TRUE(IsUsable(context->second));
    EXPECT_EQ(context->second.first_position, first_position);
    EXPECT_EQ(CommonLength(context->second.tokens, prompt), expected);
    EXPECT_EQ(harness_->contexts()->CommonPrefix(match->context, prompt)->num_tokens, expected);
    // Never what was computed under other cuts than it says.
    EXPECT_EQ(match->cuts, CutsWithin(context->second.cuts, expected));
  }
}

void CatalogProperty::CheckList() {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto list, harness_->contexts()->List(harness_.tenant()));
  ASSERT_EQ(list.size(), contexts_.size());
  auto expected = contexts_.begin();
  for (const ContextRecord& record : list) {
    const auto& [id, c] = *expected++;
    EXPECT_EQ(static_cast<int64_t>(record.id), id);
    EXPECT_EQ(record.name, c.name);
    EXPECT_EQ(static_cast<int64_t>(record.number), c.number);
    EXPECT_EQ(harness_->contexts()->Find(harness_.tenant(), NumberLabel(record.number))->id,
              record.id);
    EXPECT_EQ(record.num_tokens, c.tokens.size());
    EXPECT_EQ(record.damaged, c.damaged);
    EXPECT_EQ(record.pinned, c.pinned);
    EXPECT_EQ(record.ttl_seconds, c.ttl_s);
    EXPECT_EQ(record.last_access_us, c.last_access_us);
    EXPECT_EQ(harness_->contexts()->Tokens(record.id).value(), c.tokens);
    EXPECT_EQ(harness_->contexts()->HistoryOf(record.id)->cuts, c.cuts);
    EXPECT_EQ(harness_->contexts()->Chain(record.id).value(), c.chain);
  }
}

// Compares the catalog's counters with a count.
void CatalogProperty::CheckUses() {
  std::map<SegmentId, std::pair<uint32_t, uint64_t>> uses;  // Contexts, and the most tokens of one.
  for (const auto& [id, c] : contexts_) {
    for (const ChainLink& link : c.chain) {
      auto& [num_contexts, num_tokens_kept] = uses[link.segment];
      ++num_contexts;
      num_tokens_kept = std::max(num_tokens_kept, link.num_tokens_used);
    }
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto list, harness_->contexts()->List(harness_.tenant()));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto details, harness_->contexts()->DescribeAll(list));
  ASSERT_EQ(details.size(), contexts_.size());
  for (const ContextDetail& detail : details) {
    for (const ChainSegment& link : detail.chain) {
      EXPECT_EQ(link.num_contexts, uses[link.segment.id].first);
      EXPECT_EQ(link.num_tokens_kept, uses[link.segment.id].second);
    }
  }
  CatalogStats expected;
  for (const SegmentRecord& segment : harness_->segments()->List(harness_.tenant()).value()) {
    ++expected.num_segments;
    expected.num_tokens += segment.num_tokens;
    expected.file_bytes += segment.file_bytes;
  }
  const CatalogStats stats = harness_->Stats(harness_.tenant()).value();
  EXPECT_EQ(stats.num_contexts, contexts_.size());
  EXPECT_EQ(stats.num_segments, expected.num_segments);
  EXPECT_EQ(stats.num_tokens, expected.num_tokens);
  EXPECT_EQ(stats.file_bytes, expected.file_bytes);
}

TEST_P(CatalogProperty, AgreesWithAMapOfContexts) {
  constexpr int kSteps = 250;
  for (int step = 0; step < kSteps && !HasFatalFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    if (random_.OneIn(8)) PublishForAnother();
    switch (random_.Uniform(16)) {
      case 0:
      case 1:
      case 2:
        Drop();
        break;
      case 3:
        random_.OneIn(4) ? Lift() : Quarantine();
        break;
      case 4:
        Expire();
        break;
      case 5:
        Merge();
        break;
      case 6:
        Touch();
        break;
      case 7:
        if (random_.OneIn(3)) harness_.Reopen();
        break;
      default:
        Publish();
    }
    CheckLookups();
    CheckUses();
    if (step % 25 == 0) {
      CheckList();
      EXPECT_EQ(harness_->Verify().value(), std::vector<std::string>());
    }
  }
  CheckList();
  EXPECT_EQ(harness_->Verify().value(), std::vector<std::string>());
  while (!contexts_.empty() && !HasFatalFailure()) Drop();
  EXPECT_EQ(harness_->Verify().value(), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Seeds, CatalogProperty, ::testing::Range(uint64_t{1}, uint64_t{13}));

}  // namespace
}  // namespace attndb::store
