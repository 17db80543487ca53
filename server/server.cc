#include "server/server.h"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/anthropic/error_form.h"
#include "server/batch/pinned_prompts.h"
#include "server/batch/turn_id.h"
#include "server/clock.h"
#include "server/find/head_finder.h"
#include "server/http/hidden_paths.h"
#include "server/openai/error.h"
#include "server/openai/reply_fields.h"
#include "server/routes/contexts.h"
#include "server/routes/embeddings.h"
#include "server/routes/explain.h"
#include "server/routes/find.h"
#include "server/routes/import.h"
#include "server/routes/info.h"
#include "server/routes/llama_compat.h"
#include "server/routes/messages.h"
#include "server/routes/page.h"
#include "server/routes/responses.h"
#include "server/routes/stored_messages.h"
#include "server/routes/text.h"
#include "server/routes/upkeep.h"
#include "server/service.h"
#include "server/tenants/memory_gate.h"

namespace attndb::server {
namespace {

constexpr size_t kNumWorkers = 2;
constexpr size_t kNumReaders = 1;  // For large bodies: nobody else waits for their tokens.
constexpr size_t kLargeBody = size_t{1} << 20;
constexpr size_t kNumLoaders = 8;  // For what reads contexts from the disk, which they wait for.
constexpr size_t kNumWaiters = 1;  // For what waits for the disk, and does little else.
constexpr size_t kNumChores = 1;   // For what takes minutes.
constexpr std::string_view kContexts = "/attndb/v1/contexts/";
constexpr std::string_view kResponses = "/v1/responses/";
constexpr std::array kModels = {std::string_view("/v1/models/"), std::string_view("/models/")};

// Files and folders of a store, which messages name.
const std::vector<std::string> kStoreFiles = {"LOCK", "aside", "catalog.db", "reserve", "segments"};

struct Route {
  std::string_view method;
  std::string_view path;
  void (*answer)(Service*, Call);
  bool is_open = false;  // Asks for no key.
  // It is about a request under way: it takes no place beside that one, and is answered while the
  // server stops, too.
  bool steers = false;
};

constexpr std::array kRoutes = {
    Route{"GET", "/", AnswerPage, true},
    Route{"GET", "/health", AnswerHealth, true},
    Route{"GET", "/v1/health", AnswerHealth, true},
    Route{"GET", "/ready", AnswerReady, true},
    Route{"GET", "/models", AnswerModels},
    Route{"GET", "/v1/models", AnswerModels},
    Route{"GET", "/metrics", AnswerMetrics},
    Route{"POST", "/tokenize", AnswerTokenize},
    Route{"POST", "/v1/embeddings", AnswerEmbeddings},
    Route{"POST", "/v1/chat/completions", AnswerChat},
    Route{"POST", "/chat/completions", AnswerChat},
    Route{"POST", "/v1/chat/completions/control", AnswerChatControl,
          /*is_open=*/false, /*steers=*/true},
    Route{"POST", "/v1/completions", AnswerCompletion},
    Route{"POST", "/v1/responses", AnswerResponses},
    Route{"POST", "/v1/messages", AnswerMessages},
    Route{"POST", "/v1/messages/count_tokens", AnswerCountTokens},
    Route{"POST", "/completion", AnswerLlamaCompletion},
    Route{"POST", "/completions", AnswerLlamaCompletion},
    Route{"POST", "/infill", AnswerInfill},
    Route{"GET", "/props", AnswerProps},
    Route{"POST", "/detokenize", AnswerDetokenize},
    Route{"POST", "/apply-template", AnswerApplyTemplate},
    Route{"GET", "/attndb/v1/contexts", AnswerContexts},
    Route{"POST", "/attndb/v1/explain", AnswerExplain},
    Route{"POST", "/attndb/v1/find", AnswerFind},
    Route{"POST", "/attndb/v1/contexts", AnswerImport},
    Route{"POST", "/attndb/v1/text", AnswerStoredText},
    Route{"POST", "/attndb/v1/messages", AnswerStoredMessages},
    Route{"POST", "/attndb/v1/verify", AnswerVerify},
    Route{"POST", "/attndb/v1/compact", AnswerCompact},
    Route{"POST", "/attndb/v1/build", AnswerBuild},
    Route{"POST", "/attndb/v1/quota", AnswerQuota},
};

// A route's path without the slashes that many clients send behind it.
std::string_view WithoutLastSlash(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

// The model that the path names; none: it names no model.
std::optional<std::string> ModelOf(std::string_view path) {
  for (const std::string_view models : kModels) {
    if (path.starts_with(models)) return std::string(path.substr(models.size()));
  }
  return std::nullopt;
}

void Warn(const std::string& what) { std::fprintf(stderr, "attndb: warning: %s\n", what.c_str()); }

// Runs background work. Catches what libraries throw: a full memory, or a fault of ours. What the
// work held is destroyed then, and a client that waited for it gets a 500.
void Guard(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "attndb: warning: work was given up: %s\n", e.what());
  }
}

void PostGuarded(boost::asio::thread_pool* pool, std::function<void()> work) {
  boost::asio::post(*pool, [work = std::move(work)] { Guard(work); });
}

// Whether all that the server says on this path is its own, and no text of a model or a document.
bool IsOfContexts(const std::string& path) {
  return path == "/attndb/v1/contexts" || path.starts_with(kContexts) ||
         path == "/attndb/v1/verify" || path == "/attndb/v1/compact" || path == "/attndb/v1/build";
}

// Whether a piece of a stream is an event of an error, in the form of one of the interfaces.
bool IsErrorEvent(std::string_view piece) {
  return piece.starts_with(R"(data: {"error")") || piece.starts_with("event: error\n") ||
         piece.starts_with("event: response.failed\n");
}

// Answers with the request's id, so that what a client saw and what the log says can be matched;
// with errors in the form of the request's interface; and without paths of this host, which stand
// on stderr instead.
class NamedResponder final : public Responder {
 public:
  // `hidden` outlives it.
  NamedResponder(std::shared_ptr<Responder> responder, std::string id, const std::string& path,
                 const HiddenPaths* hidden)
      : responder_(std::move(responder)),
        id_(std::move(id)),
        hides_all_(IsOfContexts(path)),
        is_anthropic_(IsOfAnthropic(path)),
        hidden_(hidden) {}

  void Send(Response response) override {
    constexpr int kFirstOfErrors = 400;
    if (is_anthropic_ && !response.error.empty()) {
      response.body = AnthropicError(response.status, response.error, id_);
    }
    if (hides_all_ || response.status >= kFirstOfErrors) {
      response.body = Hidden(std::move(response.body));
    }
    responder_->Send(Named(std::move(response)));
  }
  void Begin(Response response) override { responder_->Begin(Named(std::move(response))); }
  void Write(std::string piece) override {
    if (hides_all_ || IsErrorEvent(piece)) piece = Hidden(std::move(piece));
    responder_->Write(std::move(piece));
  }
  void End() override { responder_->End(); }
  bool closed() const override { return responder_->closed(); }
  void OnClosed(std::function<void()> then) override { responder_->OnClosed(std::move(then)); }

 private:
  Response Named(Response response) const {
    response.headers.emplace_back("X-Request-Id", id_);
    if (is_anthropic_) response.headers.emplace_back("request-id", id_);
    return response;
  }
  std::string Hidden(std::string text) const {
    std::string hidden = hidden_->Hide(text);
    if (hidden != text) Warn("request " + id_ + ": " + text);
    return hidden;
  }

  const std::shared_ptr<Responder> responder_;
  const std::string id_;
  const bool hides_all_;
  const bool is_anthropic_;
  const HiddenPaths* const hidden_;
};

// The id that the client gives its request, if that is fit for a header and a log; else a new one.
std::string IdOf(const Request& request) {
  constexpr size_t kMaxIdBytes = 128;
  const std::string_view given = request.Header("x-request-id");
  const auto is_fit = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  if (!given.empty() && given.size() <= kMaxIdBytes && std::ranges::all_of(given, is_fit)) {
    return std::string(given);
  }
  char id[20];
  const int length =
      std::snprintf(id, sizeof(id), "%016llx", static_cast<unsigned long long>(RandomBits()));
  return {id, static_cast<size_t>(length)};
}

Result<std::unique_ptr<KeyRing>> OpenKeys(const ServerOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(auto keys, KeyRing::Open(options.keys_file, options.api_key));
  if (!options.quota_bytes || keys->HasDefaultTenant()) return keys;
  return Status::InvalidArgument("the quota is of the tenant '" + TenantRules().tenant +
                                 "', and the keys file has no key of it");
}

class HttpServer final : public Server {
 public:
  HttpServer(llama::LlamaEngine engine, DB db, ServerOptions options)
      : engine_(std::move(engine)),
        db_(std::move(db)),
        conversations_(db_, &engine_, options.conversations),
        prompts_(&engine_, &conversations_),
        log_(options.log, stderr),
        workers_(kNumWorkers),
        readers_(kNumReaders),
        embedding_(workers_.get_executor()),
        loaders_(kNumLoaders),
        following_(loaders_.get_executor()),
        waiters_(kNumWaiters),
        chores_(kNumChores),
        scheduler_(std::make_unique<Scheduler>(&engine_, &conversations_, options.scheduler)) {
    service_.options = std::move(options);
    service_.engine = &engine_;
    service_.conversations = &conversations_;
    service_.prompts = &prompts_;
    service_.scheduler = scheduler_.get();
    service_.runs_turns = [this] { return scheduler_->num_active() > 0; };
    service_.metrics = &metrics_;
    service_.running = &running_;
    service_.admission = &admission_;
    service_.log = &log_;
    service_.loads = &loads_;
    service_.head_finder = &head_finder_;
    service_.run_later = [this](const Call& call, std::function<void()> work) {
      const bool is_large = call.body_bytes > kLargeBody;
      boost::asio::post(is_large ? readers_ : workers_,
                        [this, call, work = std::move(work)] { Work(call, work); });
    };
    service_.run_embedding = [this](const Call& call, std::function<void()> work) {
      boost::asio::post(embedding_, [this, call, work = std::move(work)] { Work(call, work); });
    };
    service_.run_loading = [this](const Call& call, std::function<void()> work,
                                  std::function<bool()> is_gone) {
      loads_.Add([this, call, work = std::move(work)] { Work(call, work); }, std::move(is_gone));
    };
    service_.run_waiting = [this](const Call& call, std::function<void()> work) {
      boost::asio::post(waiters_, [this, call, work = std::move(work)] { Work(call, work); });
    };
    service_.run_chore = [this](const Call& call, std::function<void()> work) {
      boost::asio::post(chores_, [this, call, work = std::move(work)] { Work(call, work); });
    };
    service_.started = NowSeconds();
  }
  ~HttpServer() override { Stop(std::chrono::milliseconds(0)); }

  Status Open() {
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db_.Stats());
    gate_.emplace(PromisableBytes(stats.memory_limit_bytes), service_.options.scheduler.max_waiting,
                  [this](std::function<void()> work) { PostGuarded(&workers_, std::move(work)); });
    service_.gate = &*gate_;
    LimitMaxTokens();
    service_.appends = &appends_;
    hidden_paths_.emplace(
        std::vector<HiddenPaths::Entry>{{stats.path, "the store", kStoreFiles},
                                        {engine_.info().path, "the model"},
                                        {service_.options.keys_file, "the keys file"}});
    ATTNDB_ASSIGN_OR_RETURN(keys_, OpenKeys(service_.options));
    service_.options.api_key.clear();  // The ring has its digest, which suffices.
    AskTemplateCaps();
    ATTNDB_ASSIGN_OR_RETURN(service_.line_filter, LineFilter::Make(service_.options.ignored_lines));
    for (std::string& text : service_.options.pinned_prompts) {
      service_.line_filter.Apply(&text);  // As chats have it.
      ATTNDB_ASSIGN_OR_RETURN(PinnedPrompt prompt, MakePinnedPrompt(engine_, text));
      pinned_prompts_.push_back(std::move(prompt));
    }
    if (service_.options.quota_bytes) {
      ATTNDB_RETURN_IF_ERROR(db_.SetQuota(*service_.options.quota_bytes));
    }
    const std::vector<TenantChange> tenants = keys_->TakeChanges();
    for (const TenantChange& change : tenants) ATTNDB_RETURN_IF_ERROR(SetQuota(change));
    ListenerOptions listens = service_.options.listener;
    listens.on_refused = [this](int status) { metrics_.CountRequest("", status); };
    listens.refusal_body = [](std::string_view path, int status, std::string_view why) {
      return IsOfAnthropic(path) ? AnthropicError(status, std::string(why), "") : std::string();
    };
    ATTNDB_ASSIGN_OR_RETURN(
        listener_, Listener::Open(listens, [this](auto request, auto responder) {
          Call call;
          call.request = std::move(request);
          call.method = call.request->method;
          call.body_bytes = call.request->body.size();
          call.id = IdOf(*call.request);
          call.responder = std::make_shared<NamedResponder>(std::move(responder), call.id,
                                                            call.request->path, &*hidden_paths_);
          call.received_seconds = MonotonicSeconds();
          Dispatch(std::move(call));
        }));
    // Ready, once the last turn that holds this is gone.
    const std::shared_ptr<void> unread(nullptr, [this](void*) { service_.ready = true; });
    return ReadPinned(tenants, unread);
  }

  uint16_t port() const override { return listener_->port(); }
  uint32_t max_tokens() const override { return service_.options.max_tokens; }
  void Stop(std::chrono::milliseconds deadline) override;

 private:
  void Dispatch(Call call);
  // `rest`: the path behind kResponses.
  void DispatchResponse(Call call, const std::string& rest);
  void LimitMaxTokens();
  void AskTemplateCaps();
  Status SetQuota(const TenantChange& change);
  // Reads what is not stored yet, for each new tenant, behind this call; until then holds `unread`.
  Status ReadPinned(const std::vector<TenantChange>& tenants, const std::shared_ptr<void>& unread);
  // Sets and reads, behind this call, what the keys file says of tenants since it has changed.
  void FollowKeys();
  // Whose call it is. False: it was answered.
  bool CheckKey(Call* call);
  // Likewise, and a place for it.
  bool Admit(Call* call);
  // The last stop for what libraries throw: a full memory, or a fault of ours.
  void Work(const Call& call, const std::function<void()>& work);
  void Refuse(const Call& call, int status, const std::string& why, Headers headers = {});

  llama::LlamaEngine engine_;
  DB db_;
  Conversations conversations_;
  Prompts prompts_;
  Metrics metrics_;
  RunningTurns running_;
  Admission admission_;
  std::optional<MemoryGate> gate_;
  Appends appends_;
  std::optional<HiddenPaths> hidden_paths_;  // Constant once it is open.
  std::unique_ptr<KeyRing> keys_;
  std::vector<PinnedPrompt> pinned_prompts_;  // Constant once it is open.
  Service service_;
  HeadFinder head_finder_{&service_};
  RequestLog log_;
  boost::asio::thread_pool workers_;
  boost::asio::thread_pool readers_;
  // On the workers: one embedding at a time, so that another of them is free to tokenize.
  boost::asio::strand<boost::asio::thread_pool::executor_type> embedding_;
  boost::asio::thread_pool loaders_;
  LoadQueue loads_{
      [this](std::function<void()> load) { PostGuarded(&loaders_, std::move(load)); },
      [this](std::function<void()> let_go) { PostGuarded(&workers_, std::move(let_go)); }};
  // On the loaders: what the keys file says is done in the order in which it said so.
  boost::asio::strand<boost::asio::thread_pool::executor_type> following_;
  boost::asio::thread_pool waiters_;
  boost::asio::thread_pool chores_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Listener> listener_;
};

// A reply of default length may take half of the memory that one request can be promised. The other
// half is for the prompt.
void HttpServer::LimitMaxTokens() {
  const uint64_t window = WindowTokens(service_);
  const uint64_t promisable = PromisableTokens(service_);
  if (window > 0 && window <= promisable) return;
  const uint64_t most = std::max<uint64_t>(promisable / 2, 1);
  uint32_t& max_tokens = service_.options.max_tokens;
  max_tokens = static_cast<uint32_t>(std::min<uint64_t>(max_tokens, most));
}

void HttpServer::AskTemplateCaps() {
  Result<std::map<std::string, bool>> caps = engine_.ChatTemplateCaps();
  if (caps.ok()) {
    service_.template_caps = *std::move(caps);
  } else if (caps.status().code() == StatusCode::kIoError) {
    Warn("/props does not tell what the chat template can show: " + caps.status().message());
  }
}

Status HttpServer::SetQuota(const TenantChange& change) {
  if (!change.quota_bytes) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const DB db, conversations_.HandleOf(change.tenant));
  uint64_t bytes = *change.quota_bytes;
  // If the keys file loses its limit, that of the start holds again.
  if (bytes == 0 && change.tenant == TenantRules().tenant) {
    bytes = service_.options.quota_bytes.value_or(0);
  }
  return db.SetQuota(bytes);
}

Status HttpServer::ReadPinned(const std::vector<TenantChange>& tenants,
                              const std::shared_ptr<void>& unread) {
  std::vector<std::shared_ptr<Turn>> turns;
  for (const TenantChange& change : tenants) {
    if (!change.is_new) continue;
    for (const PinnedPrompt& prompt : pinned_prompts_) {
      const auto on_end = [unread, name = prompt.name](const Status& status) {
        if (status.ok() || status.code() == StatusCode::kCancelled) return;
        Warn("prompt " + name + " is not pinned: " + status.message());
      };
      ATTNDB_ASSIGN_OR_RETURN(auto turn,
                              TurnOf(engine_, &conversations_, change.tenant, prompt, on_end));
      if (turn != nullptr) turns.push_back(std::move(turn));
    }
  }
  for (const std::shared_ptr<Turn>& turn : turns) AddWhenPromised(&service_, turn);
  return Status::Ok();
}

void HttpServer::FollowKeys() {
  std::vector<TenantChange> changes = keys_->TakeChanges();
  if (changes.empty()) return;
  const auto follow = [this, changes = std::move(changes)] {
    for (const TenantChange& change : changes) {
      Status status = SetQuota(change);
      if (status.ok()) status = ReadPinned({change}, nullptr);
      if (status.ok() || status.code() == StatusCode::kCancelled) continue;
      Warn("the keys file is not followed for tenant '" + change.tenant + "': " + status.message());
    }
  };
  boost::asio::post(following_, [follow] { Guard(follow); });
}

void HttpServer::Refuse(const Call& call, int status, const std::string& why, Headers headers) {
  Response response = ErrorResponse(status, why);
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
  AnswerCall(&service_, call, std::move(response));
}

void HttpServer::Work(const Call& call, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    AnswerCall(&service_, call, ErrorResponse(503, "no memory for the request"));
  } catch (const std::exception& e) {
    AnswerCall(&service_, call,
               ErrorResponse(500, std::string(e.what()) + "; this is a bug of attndb"));
  }
}

bool HttpServer::CheckKey(Call* call) {
  std::optional<TenantRules> rules = keys_->Find(
      KeyIn(call->request->Header("authorization"), call->request->Header("x-api-key")));
  FollowKeys();
  if (!rules) {
    Refuse(*call, 401,
           "no valid key: send one as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"");
    return false;
  }
  call->rules = *std::move(rules);
  return true;
}

bool HttpServer::Admit(Call* call) {
  if (service_.stopping && call->request->method != "GET" && call->request->method != "HEAD") {
    Refuse(*call, 503, "the server stops");
    return false;
  }
  if (!CheckKey(call)) return false;
  double retry_seconds = 0;
  const Status status =
      admission_.Enter(call->rules, call->received_seconds, &call->place, &retry_seconds);
  if (status.ok()) return true;
  Refuse(*call, 429, status.message(),
         {{"Retry-After", std::to_string(static_cast<int64_t>(std::ceil(retry_seconds)))}});
  return false;
}

// Whether a page of another site asks, in a browser of somebody who may: browsers say so.
bool IsOfAnotherSite(const Request& request) {
  const std::string_view site = request.Header("sec-fetch-site");
  return !site.empty() && site != "same-origin" && site != "none";
}

void HttpServer::Dispatch(Call call) {
  const Request& request = *call.request;
  if ((request.method == "POST" || request.method == "DELETE") && IsOfAnotherSite(request)) {
    return Refuse(call, 403, "a page of another site may not ask");
  }
  const std::string_view method =
      request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
  const std::string& path = request.path;
  if (path.starts_with(kContexts) && path.size() > kContexts.size()) {
    call.route = "/attndb/v1/contexts/ID";
    if (method != "GET" && method != "DELETE" && method != "POST") {
      return Refuse(call, 405, std::string(method) + " is not for " + path,
                    {{"Allow", "GET, POST, DELETE"}});
    }
    if (Admit(&call)) AnswerContext(&service_, std::move(call), path.substr(kContexts.size()));
    return;
  }
  const std::string_view trimmed = WithoutLastSlash(path);
  if (const std::optional<std::string> model = ModelOf(trimmed)) {
    call.route = "/v1/models/ID";
    if (method != "GET") {
      return Refuse(call, 405, std::string(method) + " is not for " + path, {{"Allow", "GET"}});
    }
    if (Admit(&call)) AnswerModel(&service_, std::move(call), *model);
    return;
  }
  if (trimmed.starts_with(kResponses) && trimmed.size() > kResponses.size()) {
    return DispatchResponse(std::move(call), std::string(trimmed.substr(kResponses.size())));
  }
  // The page's files are all of one route.
  const std::string_view sought = path.starts_with(kPageFolder) ? std::string_view("/") : trimmed;
  const Route* route = nullptr;
  std::string allowed;
  for (const Route& one : kRoutes) {
    if (one.path != sought) continue;
    call.route = one.path;
    allowed += (allowed.empty() ? "" : ", ") + std::string(one.method);
    if (one.method == method) route = &one;
  }
  if (call.route.empty()) {
    call.lost_path = LoggedPath(hidden_paths_->Hide(path));
    return Refuse(call, 404, "there is no " + path);
  }
  if (route == nullptr) {
    return Refuse(call, 405, std::string(method) + " is not for " + path, {{"Allow", allowed}});
  }
  if (!route->is_open && !(route->steers ? CheckKey(&call) : Admit(&call))) return;
  route->answer(&service_, std::move(call));
}

void HttpServer::DispatchResponse(Call call, const std::string& rest) {
  const bool is_list = rest.ends_with("/input_items");
  call.route = is_list ? "/v1/responses/ID/input_items" : "/v1/responses/ID";
  const std::string& method = call.method;
  if (method != "GET" && method != "HEAD" && (is_list || method != "DELETE")) {
    return Refuse(call, 405, method + " is not for " + call.request->path,
                  {{"Allow", is_list ? "GET" : "GET, DELETE"}});
  }
  if (Admit(&call)) AnswerResponse(&service_, std::move(call), rest);
}

void HttpServer::Stop(std::chrono::milliseconds deadline) {
  service_.stopping = true;
  const auto cut = [this] {
    service_.is_cut = true;
    gate_->Close();
    scheduler_->Stop();
  };
  if (listener_ != nullptr) listener_->Drain(deadline, cut);
  if (gate_) gate_->Close();
  chores_.join();
  readers_.join();  // They add to the workers, as the chores do.
  workers_.join();  // They add to the loaders and to the scheduler.
  loaders_.join();  // They add to the scheduler.
  if (scheduler_ != nullptr) scheduler_->Stop();
  // The scheduler adds to them. They add to the workers, whose work is let go of now: all
  // connections are closed.
  waiters_.join();
  listener_.reset();
  scheduler_.reset();  // A connection that ends wakes it.
  conversations_.WaitForStores();
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(llama::LlamaEngine engine, DB db,
                                              const ServerOptions& options) {
  ServerOptions own = options;
  if (own.reasoning_budget == 0) own.chat_variables.emplace("enable_thinking", "false");
  auto server = std::make_unique<HttpServer>(std::move(engine), std::move(db), std::move(own));
  ATTNDB_RETURN_IF_ERROR(server->Open());
  return std::unique_ptr<Server>(std::move(server));
}

Status ReadChatVariables(const std::string& json, ServerOptions* options) {
  ATTNDB_RETURN_IF_ERROR(CheckJson("chat_template_kwargs", json, kMaxJsonMembers));
  llama::ChatOptions chat;
  ATTNDB_RETURN_IF_ERROR(ReadTemplateVariables(ReadOwnJson(json), "chat_template_kwargs", &chat));
  for (auto& [name, value] : chat.variables) options->chat_variables[name] = std::move(value);
  if (chat.enable_thinking) {
    options->chat_variables["enable_thinking"] = *chat.enable_thinking ? "true" : "false";
  }
  return Status::Ok();
}

Status CheckIgnoredLines(const ServerOptions& options) {
  return LineFilter::Make(options.ignored_lines).status();
}

Status CheckKeys(const ServerOptions& options) { return OpenKeys(options).status(); }

bool IsOpenToNetwork(const ServerOptions& options) {
  return options.keys_file.empty() && options.api_key.empty() &&
         !IsLoopback(options.listener.address);
}

}  // namespace attndb::server
