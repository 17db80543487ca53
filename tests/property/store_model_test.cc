// Goal:   after any history a store answers like a plain map of contexts, and its attention equals
//         float64 attention over the tokens.
// Method: random sessions, steps, stores, crops, forks, drops, pins, expiries, evictions,
//         compactions and reopenings over a tiny alphabet (prefixes collide in every way), against
//         StoreModel. After each step the lists of both tenants, one lookup and one context's
//         tokens are compared; K and V are a pure function of the token and its place, so every
//         output can be recomputed.
// Replay: ATTNDB_SEED=17 ctest -R property_test
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "attndb/context_name.h"
#include "attndb/db.h"
#include "common/random.h"
#include "testing/matchers.h"
#include "testing/seed.h"
#include "testing/store_files.h"
#include "testing/temp_dir.h"
#include "testing/toy_model.h"
#include "testing/toy_oracle.h"
#include "tests/property/store_model.h"

namespace attndb::test {
namespace {

using Tokens = std::vector<TokenId>;

constexpr const char* kTenants[] = {"default", "other"};
constexpr const char* kFingerprints[] = {"toy-a", "toy-b", "toy-c"};
constexpr const char* kNames[] = {"a", "b", "c", "d"};
constexpr TokenId kAlphabet = 2;
constexpr uint64_t kMaxTokens = 300;
constexpr size_t kMaxSessions = 6;
constexpr size_t kMaxContexts = 20;
constexpr double kTolerance = 1e-4;

// A session and what it must hold.
struct LiveSession {
  Session session;
  Origin origin;
  Tokens tokens;
  ContextKey base;
  uint64_t num_stored = 0;  // Tokens of the session that came from the store.
  bool holds = false;       // Whether the base is in use as a whole.
};

// A prompt with this many tokens of a context uses the context, though not all of it.
constexpr uint64_t kUseTokens = 64;

class StoreModelTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  StoreModelTest() : dir_(TempDir::InMemory()), random_(SeedOr(GetParam())) { Open(); }

  void Open() {
    Result<DB> db = DB::Open(dir_.File("store"), {.clock = [this] { return now_us_; }});
    ASSERT_THAT(db, IsOk());
    db_.emplace(*std::move(db));
  }
  DB Handle(const std::string& tenant) const { return *db_->ForTenant(tenant); }
  const ToyModel& ModelOf(const Origin& origin) const {
    for (const ToyModel& model : models_) {
      if (model.spec().fingerprint == origin.fingerprint) return model;
    }
    return models_[0];
  }

  uint64_t Below(uint64_t n) { return random_.Uniform(n); }
  Origin RandomOrigin() {
    return {kTenants[Below(4) == 0], kFingerprints[random_.OneIn(3) ? 1 + Below(2) : 0],
            random_.OneIn(8) ? 7 : 0};
  }
  std::string RandomTenant() { return kTenants[Below(4) == 0]; }
  Tokens RandomTokens(uint64_t num_tokens) {
    return ToyModel::Tokens(num_tokens, random_.Next(), kAlphabet);
  }
  // Mostly the beginning of some context and then something else.
  Tokens RandomPrompt();
  LiveSession& AnySession() { return sessions_[Below(sessions_.size())]; }
  // A context of the tenant in the model; kNone if there is none.
  ContextKey AnyContext(const std::string& tenant) {
    const std::vector<ContextKey> ids = model_.ContextsOf(tenant);
    return ids.empty() ? kNoContext : ids[Below(ids.size())];
  }
  // By its name, if it has one and the coin says so; else by its id.
  std::string LabelOf(const ContextKey& id) {
    const std::string& name = model_.Get(id)->name;
    if (!name.empty() && random_.OneIn(2)) return name;
    return IdName(id.id);
  }
  static ContextKey KeyOf(const std::string& tenant, ContextId id) {
    return id == ContextId::kNone ? kNoContext : ContextKey{tenant, id};
  }
  std::set<ContextKey> InUse() const {
    std::set<ContextKey> ids;
    for (const LiveSession& live : sessions_) {
      if (live.holds) ids.insert(live.base);
    }
    return ids;
  }

  void StartSession();
  void StartByName();
  void Step();
  void Store();
  void Crop();
  void Fork();
  void Reset();
  void EndUse(const ContextKey& context);
  // Whether a session that reuses so many tokens of the context keeps all of it, or counts as a
  // use.
  bool HoldsWhole(const ContextKey& context, uint64_t num_reused);
  bool IsUse(const ContextKey& context, uint64_t num_reused);
  void Close();
  void Drop();
  void PinOrTtl();
  void SetQuota();
  void Compact();
  void Reopen();
  void Wait();
  void Verify();
  void DeclareEqual();
  void RunOne();

  StoreOptions RandomStoreOptions();
  void AdoptEvictions(const std::string& tenant, const std::set<ContextKey>& in_use);
  void CheckAnswer(LiveSession* live);
  void CheckTenant(const DB& db, bool check_access_times);
  void CheckLookup();
  void CheckReader();
  void CheckFiles();

  TempDir dir_;
  Random random_;
  int64_t now_us_ = 1'000'000'000'000'000;
  std::vector<ToyModel> models_ = [] {
    std::vector<ToyModel> models;
    for (const char* const fingerprint : kFingerprints) {
      ModelSpec spec = ToyModel().spec();
      spec.fingerprint = fingerprint;
      models.emplace_back(spec);
    }
    return models;
  }();
  std::optional<DB> db_;
  StoreModel model_;
  std::vector<LiveSession> sessions_;
  std::map<std::string, uint64_t> quotas_;
  std::map<std::string, uint64_t> num_stored_;  // Contexts that were made, by tenant.
  bool declared_equal_ = false;
  const char* operation_ = "";  // The last one, for messages.
};

Tokens StoreModelTest::RandomPrompt() {
  Tokens prompt;
  if (!model_.contexts().empty() && !random_.OneIn(4)) {
    const auto context =
        std::next(model_.contexts().begin(), static_cast<int64_t>(Below(model_.contexts().size())));
    prompt = context->second.tokens;
    if (random_.OneIn(2)) prompt.resize(1 + Below(prompt.size()));
  }
  const Tokens more = RandomTokens(random_.OneIn(3) ? 1 : 1 + Below(70));
  prompt.insert(prompt.end(), more.begin(), more.end());
  if (prompt.size() > kMaxTokens) prompt.resize(kMaxTokens);
  return prompt;
}

void StoreModelTest::StartSession() {
  if (sessions_.size() >= kMaxSessions) return Close();
  const Origin origin = RandomOrigin();
  const Tokens prompt = RandomPrompt();
  const bool reuse = !random_.OneIn(10);
  const uint64_t num_reused =
      reuse ? std::min(model_.LongestPrefix(origin, prompt, now_us_), prompt.size() - 1) : 0;
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      SessionStart start,
      Handle(origin.tenant)
          .CreateSession(ModelOf(origin).spec(), prompt,
                         {.reuse = reuse, .first_position = origin.first_position}));
  ASSERT_EQ(start.session.num_reused(), num_reused);
  // Any of several contexts that agree as long may be found.
  const ContextKey found = KeyOf(origin.tenant, start.session.context_id());
  ASSERT_EQ(found == kNoContext, num_reused == 0);
  if (found != kNoContext) {
    ASSERT_EQ(std::min(model_.PrefixWith(found, origin, prompt, now_us_), prompt.size() - 1),
              num_reused);
    if (IsUse(found, num_reused)) model_.Get(found)->last_access_us = now_us_;
  }
  ASSERT_EQ(start.rest, Tokens(prompt.begin() + static_cast<int64_t>(num_reused), prompt.end()));
  sessions_.push_back({std::move(start.session), origin,
                       Tokens(prompt.begin(), prompt.begin() + static_cast<int64_t>(num_reused)),
                       found, num_reused, HoldsWhole(found, num_reused)});
}

void StoreModelTest::StartByName() {
  if (sessions_.size() >= kMaxSessions) return Close();
  Origin origin = RandomOrigin();
  const ContextKey id = AnyContext(origin.tenant);
  if (id == kNoContext) return;
  ModelContext* const context = model_.Get(id);
  const Tokens prompt = RandomPrompt();
  const Result<SessionStart> start =
      Handle(origin.tenant)
          .CreateSession(ModelOf(origin).spec(), prompt,
                         {.context = LabelOf(id), .first_position = origin.first_position});
  if (StoreModel::IsExpired(*context, now_us_)) {
    ASSERT_EQ(start.status().code(), StatusCode::kNotFound) << start.status();
    return;
  }
  if (!model_.SameModel(origin.tenant, context->origin.fingerprint, origin.fingerprint)) {
    ASSERT_EQ(start.status().code(), StatusCode::kOtherModel) << start.status();
    return;
  }
  if (context->origin.first_position != origin.first_position) {
    ASSERT_EQ(start.status().code(), StatusCode::kFailedPrecondition) << start.status();
    return;
  }
  ATTNDB_ASSERT_OK(start);
  const uint64_t length = CommonLength(context->tokens, std::span(prompt).first(prompt.size() - 1));
  ASSERT_EQ(start->session.num_reused(), length);
  if (length > 0 && IsUse(id, length)) context->last_access_us = now_us_;
}

void StoreModelTest::Step() {
  if (sessions_.empty()) return StartSession();
  LiveSession& live = AnySession();
  const uint64_t num_new = random_.OneIn(6) ? 65 + Below(40) : 1 + Below(12);
  if (live.tokens.size() + num_new > kMaxTokens) return Close();
  const uint64_t begin = live.tokens.size();
  const Tokens more = RandomTokens(num_new);
  live.tokens.insert(live.tokens.end(), more.begin(), more.end());
  const ToyModel& model = ModelOf(live.origin);
  std::vector<float> out;
  ATTNDB_ASSERT_OK(model.Step(&live.session, more, &out));
  constexpr uint64_t kDenseRows = 64;
  const double tolerance = num_new > kDenseRows ? 1e-3 : kTolerance;
  ASSERT_LE(OutputError(model, out, OracleStep(model, live.tokens, begin)), tolerance);
}

StoreOptions StoreModelTest::RandomStoreOptions() {
  StoreOptions options;
  if (random_.OneIn(2)) options.name = kNames[Below(std::size(kNames))];
  options.replace = random_.OneIn(2);
  options.drop_base = random_.OneIn(3);
  options.pin = random_.OneIn(12);
  if (random_.OneIn(3)) options.ttl = std::chrono::seconds(1 + Below(60));
  return options;
}

void StoreModelTest::Store() {
  if (sessions_.empty()) return StartSession();
  LiveSession& live = AnySession();
  const StoreModel::StoreCall call{live.origin, live.tokens, live.base, live.num_stored,
                                   RandomStoreOptions()};
  const std::set<ContextKey> in_use = InUse();
  const DB db = Handle(live.origin.tenant);
  const DBStats before = *db.Stats();
  const Result<ContextId> result = db.Store(live.session, live.tokens, call.options);
  if (live.tokens.empty()) {
    ASSERT_EQ(result.status().code(), StatusCode::kInvalidArgument) << result.status();
    return;
  }
  model_.Expire(in_use, now_us_);
  const StatusCode expected = model_.CheckStore(call);
  if (result.status().code() == StatusCode::kResourceExhausted) {
    ASSERT_NE(quotas_[live.origin.tenant], 0u) << result.status();
    ASSERT_EQ(live.session.num_reused(), live.num_stored);
    return;  // Nothing was evicted for it: the next check of the lists sees that.
  }
  ASSERT_EQ(result.status().code(), expected) << result.status();
  if (!result.ok()) return;
  const ContextKey stored = {live.origin.tenant, *result};
  AdoptEvictions(live.origin.tenant, in_use);
  const ContextKey unchanged = model_.Unchanged(call);
  if (unchanged != kNoContext) {
    ASSERT_EQ(stored, unchanged);
  } else if (model_.BaseGrows(call)) {
    ASSERT_EQ(stored, live.base);
  } else {
    // Each tenant counts its own, and none twice.
    ASSERT_EQ(static_cast<uint64_t>(stored.id), ++num_stored_[stored.tenant]);
  }
  if (live.base != stored && live.holds) EndUse(live.base);
  model_.Store(call, stored, now_us_);
  live.base = stored;
  live.num_stored = live.tokens.size();
  live.holds = true;
  const DBStats after = *db.Stats();
  // Segments that other sessions still read, and copies of shared segments, may exceed the quota.
  if (after.quota_bytes != 0 && sessions_.size() == 1 &&
      after.bytes_merged == before.bytes_merged && after.bytes_written > before.bytes_written) {
    ASSERT_LE(after.file_bytes, after.quota_bytes);
  }
  ASSERT_EQ(live.session.context_id(), stored.id);
  ASSERT_EQ(live.session.num_reused(), live.tokens.size());
}

// Contexts that the store evicted must be the first in the order of eviction, and there must have
// been a reason.
void StoreModelTest::AdoptEvictions(const std::string& tenant, const std::set<ContextKey>& in_use) {
  if (quotas_[tenant] == 0) return;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<ContextInfo> infos, Handle(tenant).List());
  std::set<ContextKey> found;
  for (const ContextInfo& info : infos) found.insert({tenant, info.id});
  bool kept_one = false;
  for (const ContextKey& id : model_.EvictionOrder(tenant, in_use)) {
    if (found.contains(id)) {
      kept_one = true;
      continue;
    }
    // Replaced or dropped as a base: model_.Store sees to that.
    if (kept_one) continue;
    model_.Drop(id);
  }
}

void StoreModelTest::Crop() {
  if (sessions_.empty()) return StartSession();
  LiveSession& live = AnySession();
  const uint64_t num_tokens = Below(live.tokens.size() + 1);
  ATTNDB_ASSERT_OK(live.session.Crop(num_tokens));
  live.tokens.resize(num_tokens);
  live.num_stored = std::min(live.num_stored, num_tokens);
}

void StoreModelTest::Fork() {
  if (sessions_.empty() || sessions_.size() >= kMaxSessions) return StartSession();
  const LiveSession& live = AnySession();
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, live.session.Fork());
  sessions_.push_back(
      {std::move(fork), live.origin, live.tokens, live.base, live.num_stored, live.holds});
}

void StoreModelTest::Reset() {
  if (sessions_.empty()) return;
  LiveSession& live = AnySession();
  live.session.Reset();
  if (live.holds) EndUse(live.base);
  live.holds = false;
  live.tokens.clear();
  live.base = kNoContext;
  live.num_stored = 0;
}

void StoreModelTest::Close() {
  if (sessions_.empty()) return;
  const auto closed = sessions_.begin() + static_cast<int64_t>(Below(sessions_.size()));
  if (closed->holds) EndUse(closed->base);
  sessions_.erase(closed);
}

// A prompt's last token is always computed.
bool StoreModelTest::HoldsWhole(const ContextKey& context, uint64_t num_reused) {
  const ModelContext* const found = model_.Get(context);
  return found != nullptr && num_reused + 1 >= found->tokens.size();
}

bool StoreModelTest::IsUse(const ContextKey& context, uint64_t num_reused) {
  return num_reused >= kUseTokens || HoldsWhole(context, num_reused);
}

// The time to live of a context counts from the end of its last use.
void StoreModelTest::EndUse(const ContextKey& context) {
  if (ModelContext* const used = model_.Get(context)) used->last_access_us = now_us_;
}

void StoreModelTest::Drop() {
  const std::string tenant = RandomTenant();
  const ContextKey id = AnyContext(tenant);
  if (id == kNoContext) {
    ASSERT_EQ(Handle(tenant).Drop("nothing").code(), StatusCode::kNotFound);
    return;
  }
  const std::string label = LabelOf(id);
  ATTNDB_ASSERT_OK(Handle(tenant).Drop(label));
  model_.Drop(id);
  ASSERT_EQ(Handle(tenant).Drop(label).code(), StatusCode::kNotFound);
}

void StoreModelTest::PinOrTtl() {
  const std::string tenant = RandomTenant();
  const ContextKey id = AnyContext(tenant);
  if (id == kNoContext) return;
  ModelContext* const context = model_.Get(id);
  if (random_.OneIn(2)) {
    context->pinned = random_.OneIn(3);
    ATTNDB_ASSERT_OK(Handle(tenant).Pin(LabelOf(id), context->pinned));
    return;
  }
  std::optional<std::chrono::seconds> ttl;
  if (random_.OneIn(2)) ttl = std::chrono::seconds(1 + Below(60));
  ATTNDB_ASSERT_OK(Handle(tenant).SetTtl(LabelOf(id), ttl));
  context->ttl_seconds = ttl.has_value() ? std::optional(ttl->count()) : std::nullopt;
}

void StoreModelTest::SetQuota() {
  const std::string tenant = RandomTenant();
  const uint64_t used_bytes = Handle(tenant).Stats()->file_bytes;
  quotas_[tenant] = random_.OneIn(3) ? 0 : used_bytes / 2 + Below(used_bytes + 100'000);
  ATTNDB_ASSERT_OK(Handle(tenant).SetQuota(quotas_[tenant]));
}

void StoreModelTest::Compact() {
  const std::set<ContextKey> in_use = InUse();
  const std::string tenant = RandomTenant();
  const CompactOptions options = {.segment_tokens = random_.OneIn(2) ? 0 : 1 + Below(300)};
  ATTNDB_ASSERT_OK(Handle(tenant).Compact(options));
  model_.Expire(in_use, now_us_);
  const uint64_t bytes_merged = Handle(tenant).Stats()->bytes_merged;
  ATTNDB_ASSERT_OK(Handle(tenant).Compact(options));
  ASSERT_EQ(Handle(tenant).Stats()->bytes_merged, bytes_merged);  // There was nothing left to do.
  if (declared_equal_) return;  // Segments of two fingerprints stay apart.
  for (const ContextKey& id : model_.ContextsOf(tenant)) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, Handle(tenant).Describe(LabelOf(id)));
    for (size_t i = 1; i < info.segments.size(); ++i) {  // All of them are small.
      const SegmentInfo& a = info.segments[i - 1];
      const SegmentInfo& b = info.segments[i];
      const bool too_long =
          options.segment_tokens != 0 && a.num_tokens + b.num_tokens > options.segment_tokens;
      ASSERT_TRUE(too_long || a.num_contexts != b.num_contexts);
    }
  }
}

void StoreModelTest::Reopen() {
  for (const LiveSession& live : sessions_) {
    if (live.holds) EndUse(live.base);
  }
  sessions_.clear();
  db_.reset();
  Open();
  CheckFiles();
}

// The folder holds the files of the segments that some context uses, and of their companions, and
// no others.
void StoreModelTest::CheckFiles() {
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  using Segment = std::pair<std::string, int64_t>;  // Its tenant and its id there.
  std::set<Segment> segments;
  std::set<std::pair<Segment, std::string>> companions;
  for (const auto& [id, context] : model_.contexts()) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info,
                                Handle(context.origin.tenant).Describe(LabelOf(id)));
    for (const SegmentInfo& segment : info.segments) {
      const Segment key = {id.tenant, segment.segment_id};
      segments.insert(key);
      for (const CompanionInfo& companion : segment.companions) {
        companions.emplace(key, companion.kind);
      }
    }
  }
  ASSERT_EQ(NumFilesIn(dir_.File("store/segments")), 2 * (segments.size() + companions.size()));
}

void StoreModelTest::CheckAnswer(LiveSession* live) {
  if (live->tokens.empty()) return;
  const ToyModel& model = ModelOf(live->origin);
  const auto probe = static_cast<TokenId>(Below(1000));
  std::vector<float> out;
  ATTNDB_ASSERT_OK(model.Probe(&live->session, probe, &out));
  ASSERT_LE(OutputError(model, out, OracleProbe(model, live->tokens, probe)), kTolerance);
}

void StoreModelTest::CheckTenant(const DB& db, bool check_access_times) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<ContextInfo> infos, db.List());
  std::vector<ContextKey> found;
  for (const ContextInfo& info : infos) found.push_back({db.tenant(), info.id});
  ASSERT_EQ(found, model_.ContextsOf(db.tenant()));
  for (const ContextInfo& info : infos) {
    const ModelContext& expected = *model_.Get({db.tenant(), info.id});
    ASSERT_EQ(info.name, expected.name);
    ASSERT_EQ(info.num_tokens, expected.tokens.size());
    ASSERT_EQ(info.fingerprint, expected.origin.fingerprint);
    ASSERT_EQ(info.first_position, expected.origin.first_position);
    ASSERT_EQ(info.ttl_seconds, expected.ttl_seconds);
    ASSERT_EQ(info.pinned, expected.pinned);
    ASSERT_EQ(info.created_us, expected.created_us);
    ASSERT_FALSE(info.damaged);
    ASSERT_EQ(info.kv_bytes,
              expected.tokens.size() * ModelOf(expected.origin).spec().KvBytesPerToken());
    if (check_access_times) {
      ASSERT_EQ(info.last_access_us, expected.last_access_us);
    }
  }
  if (infos.empty()) return;
  const ContextKey id = {db.tenant(), infos[Below(infos.size())].id};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Tokens tokens, db.Tokens(LabelOf(id)));
  ASSERT_EQ(tokens, model_.Get(id)->tokens);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, db.Describe(LabelOf(id)));
  uint64_t num_tokens = 0;
  for (const SegmentInfo& segment : info.segments) num_tokens += segment.num_tokens_used;
  ASSERT_EQ(num_tokens, tokens.size());
}

void StoreModelTest::CheckLookup() {
  const Origin origin = RandomOrigin();
  const Tokens prompt = RandomPrompt();
  const uint64_t length = model_.LongestPrefix(origin, prompt, now_us_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefixExplain explain,
                              Handle(origin.tenant)
                                  .ExplainPrefix(ModelOf(origin).spec(), prompt,
                                                 {.first_position = origin.first_position}));
  ASSERT_EQ(explain.num_reused, std::min(length, prompt.size() - 1));
}

// A reader beside the writer sees the same, and changes nothing.
void StoreModelTest::CheckReader() {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const DB reader,
      DB::Open(dir_.File("store"), {.read_only = true, .clock = [this] { return now_us_; }}));
  for (const char* const tenant : kTenants) {
    const DB handle = *reader.ForTenant(tenant);
    CheckTenant(handle, /*check_access_times=*/false);
    ASSERT_EQ(handle.Compact().code(), StatusCode::kReadOnly);
    const Origin origin{tenant, kFingerprints[0], 0};
    const Tokens prompt = RandomPrompt();
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start,
                                handle.CreateSession(ModelOf(origin).spec(), prompt));
    // Access times that the writer keeps in memory may let a context live longer than the reader
    // can know; without TTLs both agree.
    LiveSession live{std::move(start.session), origin, prompt, kNoContext, 0};
    ATTNDB_ASSERT_OK(ModelOf(origin).Step(&live.session, start.rest));
    CheckAnswer(&live);
  }
}

void StoreModelTest::Wait() { now_us_ += 30'000'000; }

void StoreModelTest::Verify() {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, Handle(RandomTenant()).Verify());
  ASSERT_TRUE(report.ok()) << report.damages[0].file << ": " << report.damages[0].message;
}

void StoreModelTest::DeclareEqual() {
  const char* const a = kFingerprints[Below(std::size(kFingerprints))];
  const char* const b = kFingerprints[Below(std::size(kFingerprints))];
  const std::string tenant = RandomTenant();
  ATTNDB_ASSERT_OK(Handle(tenant).DeclareEqual(a, b));
  model_.DeclareEqual(tenant, a, b);
  declared_equal_ = declared_equal_ || std::string_view(a) != b;
}

void StoreModelTest::RunOne() {
  struct Operation {
    const char* name;
    uint64_t weight;
    void (StoreModelTest::*run)();
  };
  static constexpr Operation kOperations[] = {
      {"start session", 200, &StoreModelTest::StartSession},
      {"start by name", 40, &StoreModelTest::StartByName},
      {"step", 220, &StoreModelTest::Step},
      {"store", 220, &StoreModelTest::Store},
      {"crop", 50, &StoreModelTest::Crop},
      {"fork", 50, &StoreModelTest::Fork},
      {"reset", 10, &StoreModelTest::Reset},
      {"close", 50, &StoreModelTest::Close},
      {"drop", 30, &StoreModelTest::Drop},
      {"pin or ttl", 40, &StoreModelTest::PinOrTtl},
      {"quota", 20, &StoreModelTest::SetQuota},
      {"compact", 20, &StoreModelTest::Compact},
      {"reopen", 10, &StoreModelTest::Reopen},
      {"reader", 10, &StoreModelTest::CheckReader},
      {"wait", 10, &StoreModelTest::Wait},
      {"verify", 10, &StoreModelTest::Verify},
      {"declare equal", 1, &StoreModelTest::DeclareEqual},
  };
  static constexpr uint64_t kTotal = [] {
    uint64_t total = 0;
    for (const Operation& operation : kOperations) total += operation.weight;
    return total;
  }();
  now_us_ += static_cast<int64_t>(Below(2'000'000));
  uint64_t dice = Below(kTotal);
  const Operation* operation = kOperations;
  for (; dice >= operation->weight; ++operation) dice -= operation->weight;
  if (model_.contexts().size() > kMaxContexts) {
    operation = std::ranges::find(kOperations, &StoreModelTest::Drop, &Operation::run);
  }
  operation_ = operation->name;
  (this->*operation->run)();
}

TEST_P(StoreModelTest, AgreesWithAMapOfContexts) {
  constexpr int kNumSteps = 1200;
  for (int step = 0; step < kNumSteps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    ASSERT_NO_FATAL_FAILURE(RunOne()) << operation_;
    SCOPED_TRACE(operation_);
    for (const char* const tenant : kTenants) {
      ASSERT_NO_FATAL_FAILURE(CheckTenant(Handle(tenant), /*check_access_times=*/true));
    }
    ASSERT_NO_FATAL_FAILURE(CheckLookup());
    if (sessions_.empty()) continue;
    ASSERT_NO_FATAL_FAILURE(CheckAnswer(&AnySession()));
  }
  Reopen();
  for (const char* const tenant : kTenants) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, Handle(tenant).Verify());
    EXPECT_TRUE(report.ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoreModelTest, ::testing::Range(uint64_t{1}, uint64_t{9}));

}  // namespace
}  // namespace attndb::test
