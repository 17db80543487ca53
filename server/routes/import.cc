#include "server/routes/import.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "attndb/units.h"
#include "engines/llama/prompt_layout.h"
#include "server/openai/error.h"
#include "server/routes/import_request.h"

namespace attndb::server {
namespace {

std::string EventOf(const Json& json) { return "data: " + ToText(json) + "\n\n"; }

// The model's name, as its file says it, for people.
std::string ModelName(const Service& service) { return "model '" + service.options.model_id + "'"; }

// Names of the contexts of this tenant that went since `before`, to make room.
std::vector<std::string> EvictedSince(const DBStats& before, const DBStats& now) {
  const auto num_new =
      std::min<size_t>(now.num_evictions - before.num_evictions, now.evicted.size());
  return {now.evicted.end() - static_cast<std::ptrdiff_t>(num_new), now.evicted.end()};
}

// What all answers of an import begin with: as `attndb import --json` has it.
Json SummaryOf(const ContextInfo& info) {
  return {{"context", info.name},
          {"id", static_cast<int64_t>(info.id)},
          {"num_tokens", info.num_tokens},
          {"file_bytes", info.file_bytes},
          {"companion_bytes", info.companion_bytes}};
}

// Sends the one answer of an import, at once or behind its progress.
class ImportAnswer {
 public:
  ImportAnswer(Service* service, Call call, bool stream)
      : service_(service), call_(std::move(call)), stream_(stream) {}

  const Call& call() const { return call_; }

  void Progress(uint64_t num_done, uint64_t num_tokens) {
    if (!stream_) return;
    const std::string event = EventOf({{"done", num_done}, {"total", num_tokens}});
    if (std::exchange(begun_, true)) return call_.responder->Write(event);
    call_.responder->Begin({.content_type = "text/event-stream",
                            .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
                            .body = event});
  }
  void Send(const Result<Json>& json, CallEnd end) {
    end.status = json.ok() ? 200 : HttpStatusOf(json.status());
    NoteEnd(service_, call_, end);
    call_.place.reset();  // Before the client knows, who may ask again at once.
    if (!begun_ && (!stream_ || !json.ok())) {
      call_.responder->Send(json.ok() ? Response{.body = ToText(*json)}
                                      : ErrorResponse(json.status()));
      return;
    }
    const std::string event = EventOf(json.ok() ? *json : ErrorJson(json.status()));
    const std::string last = event + (json.ok() ? "data: [DONE]\n\n" : "");
    if (begun_) {
      call_.responder->Write(last);
    } else {
      call_.responder->Begin({.content_type = "text/event-stream", .body = last});
    }
    call_.responder->End();
  }

 private:
  Service* const service_;
  Call call_;
  const bool stream_;
  bool begun_ = false;
};

// Waits for the turn that reads the text, and then for the disk.
class ImportListener final : public TurnListener {
 public:
  ImportListener(Service* service, std::shared_ptr<ImportAnswer> answer, std::string name,
                 uint64_t num_reused, DBStats before)
      : service_(service),
        answer_(std::move(answer)),
        name_(std::move(name)),
        num_reused_(num_reused),
        before_(std::move(before)),
        start_seconds_(MonotonicSeconds()) {}

  void OnProgress(uint64_t num_run, uint64_t num_to_run) override {
    answer_->Progress(num_reused_ + num_run, num_reused_ + num_to_run);
  }
  void OnStart(const TurnStart& start) override {
    start_ = start;
    service_->metrics->num_prompt_tokens += start.num_prompt_tokens;
    service_->metrics->num_cached_tokens += start.num_cached_tokens;
  }
  void OnText(std::string_view /*text*/) override {}
  void OnEnd(const TurnEnd& /*end*/) override {
    const double seconds = MonotonicSeconds() - start_seconds_;
    const std::string& tenant = answer_->call().rules.tenant;
    service_->admission->Count(tenant, start_.num_prompt_tokens - num_reused_, MonotonicSeconds());
    service_->run_waiting(answer_->call(), [service = service_, answer = answer_, name = name_,
                                            start = start_, before = before_, seconds] {
      answer->Send(Report(*service, answer->call().rules.tenant, name, start, before, seconds),
                   {.num_prompt_tokens = start.num_prompt_tokens,
                    .num_cached_tokens = start.num_cached_tokens,
                    .first_token_seconds = seconds});
    });
  }
  void OnError(const Status& status) override { answer_->Send(status, {}); }

 private:
  static Result<Json> Report(const Service& service, const std::string& tenant,
                             const std::string& name, const TurnStart& start, const DBStats& before,
                             double seconds) {
    ATTNDB_RETURN_IF_ERROR(service.conversations->WaitFor(tenant, name));
    ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(tenant));
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(name));
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
    const uint64_t num_run = start.num_prompt_tokens - start.num_cached_tokens;
    Json json = SummaryOf(info);
    json["already_imported"] = false;
    json["reused_tokens"] = start.num_cached_tokens;
    json["new_tokens"] = num_run;
    json["seconds"] = seconds;
    json["tokens_per_second"] = seconds > 0 ? static_cast<double>(num_run) / seconds : 0;
    json["evicted"] = EvictedSince(before, stats);
    return json;
  }

  Service* const service_;
  const std::shared_ptr<ImportAnswer> answer_;
  const std::string name_;
  const uint64_t num_reused_;
  const DBStats before_;
  const double start_seconds_;
  TurnStart start_;
};

Status CheckLength(const Service& service, size_t num_tokens) {
  const uint64_t most = service.engine->info().max_context;
  if (most == 0 || num_tokens <= most) return Status::Ok();
  return Status::InvalidArgument("the text has " + Counted(num_tokens, "token") + ", but " +
                                 ModelName(service) + " is meant for " + FormatCount(most));
}

// The answer where there is nothing to run: it gets the life that was asked for.
Result<Json> NothingToDo(const DB& db, const StoreOptions& store) {
  if (store.pin) ATTNDB_RETURN_IF_ERROR(db.Pin(store.name));
  if (store.ttl) ATTNDB_RETURN_IF_ERROR(db.SetTtl(store.name, store.ttl));
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(store.name));
  Json json = SummaryOf(info);
  json["already_imported"] = true;
  return json;
}

Status Import(Service* service, const Call& call) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(call.request->body));
  ATTNDB_ASSIGN_OR_RETURN(const ImportRequest asked, ParseImport(body));
  ATTNDB_ASSIGN_OR_RETURN(
      std::vector<TokenId> tokens,
      llama::DocumentTokens(*service->engine, asked.raw, asked.system, asked.text));
  ATTNDB_RETURN_IF_ERROR(CheckLength(*service, tokens.size()));
  const std::string& tenant = call.rules.tenant;
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service->conversations->HandleOf(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const bool is_there, IsImported(*service, db, asked.store, tokens));
  auto answer = std::make_shared<ImportAnswer>(service, call, asked.stream);
  if (is_there) {
    answer->Send(NothingToDo(db, asked.store), {});
    return Status::Ok();
  }
  ATTNDB_ASSIGN_OR_RETURN(DBStats before, db.Stats());
  // As exact as `attndb import`: what is asked later begins with these keys and values.
  ATTNDB_ASSIGN_OR_RETURN(Continuation start,
                          service->conversations->Start(tenant, tokens, "full"));
  TurnRequest turn;
  turn.id = asked.store.name;
  turn.tenant = tenant;
  turn.received_seconds = call.received_seconds;
  turn.store = asked.store;
  // The token that is sampled behind the text is not run, so that it is not stored.
  turn.generate.max_tokens = 1;
  const uint64_t num_reused = tokens.size() - start.rest.size();
  turn.prompt = std::move(tokens);
  auto listener = std::make_shared<ImportListener>(service, std::move(answer), asked.store.name,
                                                   num_reused, std::move(before));
  return ScheduleTurn(service, call,
                      std::make_shared<Turn>(std::move(turn), std::move(start.session),
                                             std::move(start.rest), std::move(listener)));
}

}  // namespace

Result<bool> IsImported(const Service& service, const DB& db, const StoreOptions& store,
                        std::span<const TokenId> tokens) {
  const Result<ContextInfo> holder = db.Describe(store.name);
  if (holder.status().code() == StatusCode::kNotFound) return false;
  ATTNDB_RETURN_IF_ERROR(holder.status());
  const ModelSpec& spec = service.engine->spec();
  bool is_same = holder->num_tokens == tokens.size() && holder->fingerprint == spec.fingerprint &&
                 holder->kv_dtype == spec.kv_dtype && holder->num_dropped == 0;
  if (is_same) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, db.Tokens(store.name));
    is_same = std::ranges::equal(ids, tokens);
  }
  if (is_same && !holder->damaged) return true;
  if (is_same || store.replace) return false;
  return Status::AlreadyExists("the name '" + store.name + "' belongs to another context of " +
                               Counted(holder->num_tokens, "token"));
}

void AnswerImport(Service* service, Call call) {
  service->run_later(call, [service, call] {
    const Status status = Import(service, call);
    if (!status.ok()) AnswerCall(service, call, ErrorResponse(status));
  });
}

}  // namespace attndb::server
