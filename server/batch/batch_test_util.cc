#include "server/batch/batch_test_util.h"

#include <utility>

#include "engines/llama/engine_test_util.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

constexpr const char* kTenant = "default";

}  // namespace

void RecordingListener::Note() {
  EXPECT_FALSE(end_ || error_) << "a call behind the end";
  ++num_calls_;
}

void RecordingListener::OnStart(const TurnStart& start) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Note();
    EXPECT_FALSE(start_) << "started twice";
    start_ = start;
    changed_.notify_all();
  }
  if (on_start_) on_start_();
}

void RecordingListener::OnChances(std::vector<llama::ReplyToken> tokens) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Note();
  EXPECT_TRUE(start_) << "chances before the start";
  EXPECT_FALSE(tokens.empty());
  chances_.insert(chances_.end(), tokens.begin(), tokens.end());
}

void RecordingListener::OnText(std::string_view text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Note();
  EXPECT_TRUE(start_) << "text before the start";
  EXPECT_FALSE(text.empty());
  text_ += text;
}

void RecordingListener::OnToken(double seconds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_TRUE(start_) << "a token before the start";
  EXPECT_FALSE(end_ || error_) << "a token behind the end";
  EXPECT_GE(seconds, 0);
  ++num_tokens_;
}

void RecordingListener::OnEnd(const TurnEnd& end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Note();
  EXPECT_TRUE(start_) << "an end before the start";
  end_ = end;
  changed_.notify_all();
}

void RecordingListener::OnError(const Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Note();
  EXPECT_FALSE(status.ok());
  error_ = status;
  changed_.notify_all();
}

bool RecordingListener::Await(const std::function<bool()>& is_true) {
  std::unique_lock<std::mutex> lock(mutex_);
  const bool came = changed_.wait_for(lock, test::kPatience, is_true);
  EXPECT_TRUE(came) << "the turn does not go on";
  return came;
}

bool RecordingListener::AwaitStart() {
  return Await([this] { return start_.has_value(); });
}

bool RecordingListener::AwaitEnd() {
  return Await([this] { return end_ || error_; });
}

std::optional<TurnStart> RecordingListener::start() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return start_;
}

std::optional<TurnEnd> RecordingListener::end() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return end_;
}

Status RecordingListener::error() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_.value_or(Status::Ok());
}

std::string RecordingListener::text() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return text_;
}

std::vector<llama::ReplyToken> RecordingListener::chances() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return chances_;
}

uint64_t RecordingListener::num_tokens() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_tokens_;
}

int RecordingListener::num_calls() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_calls_;
}

llama::GenerateOptions Greedy(uint32_t max_tokens) {
  return {.max_tokens = max_tokens, .ignore_end = true};
}

void BatchTest::Open(const std::string& kind, llama::EngineOptions options,
                     const ConversationOptions& conversations) {
  options.cache_dir = directory_.File("cache");
  engine_.emplace(*llama::LlamaEngine::Open(llama::TinyModel(kind), options));
  db_.emplace(*DB::Open(directory_.File("store"), {}));
  conversations_.emplace(*db_, &*engine_, conversations);
}

void BatchTest::Open(const std::string& kind) {
  Open(kind, llama::TinyOptions(llama::HookVariant::kRewrite));
}

DB BatchTest::OpenSmall() const {
  return *DB::Open(directory_.File("small"),
                   {.query_sample = 0,
                    .host_memory_bytes = (256 << 10) + 30 * engine_->spec().KvBytesPerToken()});
}

void BatchTest::StartScheduler(const SchedulerOptions& options) {
  scheduler_.emplace(&*engine_, &*conversations_, options);
}

void BatchTest::TearDown() {
  gate_.Set();
  ResumeStores();
  scheduler_.reset();  // The members before it are its own until then.
  if (conversations_) conversations_->WaitForStores();
}

TurnRequest BatchTest::Request(const std::string& id, size_t num_tokens, uint64_t seed,
                               const llama::GenerateOptions& generate) const {
  TurnRequest request;
  request.id = id;
  request.cut_id = id;
  request.tenant = kTenant;
  request.prompt = llama::RandomIds(num_tokens, seed, engine_->info().vocab_size);
  request.generate = generate;
  return request;
}

Session BatchTest::NewSession(const DB& db) const {
  const TokenId any[] = {1};
  Result<SessionStart> start = db.CreateSession(engine_->spec(), any, {.reuse = false});
  EXPECT_THAT(start, ::attndb::test::IsOk());
  return std::move(start->session);
}

Session BatchTest::SessionOf(const std::string& tenant, const std::vector<TokenId>& tokens) {
  Session session = NewSession(*conversations_->HandleOf(tenant));
  EXPECT_THAT(engine_->Prefill(session, tokens), ::attndb::test::IsOk());
  return session;
}

llama::Generation BatchTest::Alone(const TurnRequest& request) {
  Session session = NewSession(*db_);
  Result<llama::Generation> generation =
      engine_->Generate(session, request.prompt, request.generate);
  EXPECT_THAT(generation, ::attndb::test::IsOk());
  return generation.ok() ? *std::move(generation) : llama::Generation();
}

void BatchTest::Block() {
  const auto blocking = Add(Request("gate", 1, 999, Greedy(1)), [this] { gate_.Await(); });
  ASSERT_TRUE(blocking->AwaitStart());
}

std::vector<std::shared_ptr<RecordingListener>> BatchTest::ExpectEachAsAlone(
    const std::vector<TurnRequest>& requests) {
  std::vector<llama::Generation> alone;
  for (const TurnRequest& request : requests) alone.push_back(Alone(request));
  StartScheduler();
  auto listeners = AddAtOnce(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(listeners[i]->AwaitEnd());
    const std::optional<TurnEnd> end = listeners[i]->end();
    EXPECT_TRUE(end) << listeners[i]->error().ToString();
    EXPECT_EQ(listeners[i]->text(), alone[i].text);
    EXPECT_EQ(end ? end->num_tokens : 0, alone[i].tokens.size());
    EXPECT_EQ(Stored(requests[i].id), Held(requests[i], alone[i]));
  }
  return listeners;
}

std::vector<std::shared_ptr<RecordingListener>> BatchTest::AddAtOnce(
    const std::vector<TurnRequest>& requests) {
  Block();
  std::vector<std::shared_ptr<RecordingListener>> listeners;
  for (const TurnRequest& request : requests) listeners.push_back(Add(request));
  gate_.Set();
  return listeners;
}

std::shared_ptr<Turn> BatchTest::MakeTurn(const TurnRequest& request, Session session,
                                          std::shared_ptr<RecordingListener> listener) const {
  return std::make_shared<Turn>(request, std::move(session), request.prompt, std::move(listener));
}

std::shared_ptr<RecordingListener> BatchTest::Add(const TurnRequest& request,
                                                  std::function<void()> on_start) {
  auto listener = std::make_shared<RecordingListener>(std::move(on_start));
  Result<Continuation> start = conversations_->Start(
      request.tenant, request.prompt, "full", request.generate.prefill.window, request.left_out);
  EXPECT_THAT(start, ::attndb::test::IsOk());
  if (!start.ok()) return listener;
  EXPECT_THAT(scheduler_->Add(std::make_shared<Turn>(request, std::move(start->session),
                                                     std::move(start->rest), listener)),
              ::attndb::test::IsOk());
  return listener;
}

std::vector<TokenId> BatchTest::Stored(const std::string& id) {
  conversations_->WaitForStores();
  Result<std::vector<TokenId>> tokens = db_->Tokens(id);
  EXPECT_THAT(tokens, ::attndb::test::IsOk()) << id;
  return tokens.ok() ? *std::move(tokens) : std::vector<TokenId>();
}

void BatchTest::StopStores(const std::string& tenant) {
  stop_ = std::make_unique<Stop>(*conversations_->HandleOf(tenant));
  const DB& db = stop_->db;
  {
    // Segments of one context, which others no longer share: these can be merged.
    Session session = NewSession(db);
    std::vector<TokenId> all;
    for (const char* const name : {"stop0", "stop1", "stop2"}) {
      const auto more = llama::RandomIds(10, 900 + all.size(), engine_->info().vocab_size);
      EXPECT_THAT(engine_->Prefill(session, more), ::attndb::test::IsOk());
      all.insert(all.end(), more.begin(), more.end());
      EXPECT_THAT(db.Store(session, all, {.name = name, .pin = true}), ::attndb::test::IsOk());
    }
  }
  EXPECT_THAT(db.WaitForBackground(), ::attndb::test::IsOk());
  EXPECT_THAT(db.Drop("stop0"), ::attndb::test::IsOk());
  EXPECT_THAT(db.Drop("stop1"), ::attndb::test::IsOk());
  stop_->merge = std::thread([stop = stop_.get()] {
    CompactOptions options;
    options.context = "stop2";
    options.progress = [stop](uint64_t, uint64_t) {
      stop->begun.Set();
      stop->go_on.Await();
      return true;
    };
    EXPECT_THAT(stop->db.Compact(options), ::attndb::test::IsOk());
    EXPECT_TRUE(stop->begun.IsSet()) << "there was nothing to merge";
    stop->begun.Set();
  });
  stop_->begun.Await();
  EXPECT_THAT(db.SetQuota(1), ::attndb::test::IsOk());
}

void BatchTest::ResumeStores() {
  if (stop_ == nullptr) return;
  EXPECT_THAT(stop_->db.SetQuota(0), ::attndb::test::IsOk());
  stop_->go_on.Set();
  stop_->merge.join();
  stop_.reset();
}

std::vector<TokenId> Held(const TurnRequest& request, const llama::Generation& generation) {
  std::vector<TokenId> tokens = request.prompt;
  tokens.insert(tokens.end(), generation.tokens.begin(),
                generation.tokens.begin() + static_cast<std::ptrdiff_t>(generation.num_in_session));
  return tokens;
}

}  // namespace attndb::server
