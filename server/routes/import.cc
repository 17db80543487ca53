#include "server/routes/import.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "attndb/context_name.h"
#include "attndb/units.h"
#include "engines/llama/prompt_layout.h"
#include "engines/llama/stored_text.h"
#include "server/openai/error.h"
#include "server/routes/import_request.h"
#include "server/routes/progress_answer.h"
#include "server/routes/store_place.h"

namespace attndb::server {
namespace {

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

// Waits for the turn that reads the text, and then for the disk.
class ImportListener final : public TurnListener {
 public:
  // `held` is let go when all is stored.
  ImportListener(Service* service, std::shared_ptr<ProgressAnswer> answer, std::string name,
                 uint64_t num_tokens, DBStats before, std::shared_ptr<void> held)
      : service_(service),
        answer_(std::move(answer)),
        name_(std::move(name)),
        num_tokens_(num_tokens),
        before_(std::move(before)),
        held_(std::move(held)),
        start_seconds_(MonotonicSeconds()) {}

  void OnProgress(uint64_t num_run, uint64_t num_to_run) override {
    answer_->Progress(num_tokens_ - num_to_run + num_run, num_tokens_);
  }
  void OnStart(const TurnStart& start) override {
    start_ = start;
    service_->metrics->num_prompt_tokens += start.num_prompt_tokens;
    service_->metrics->num_cached_tokens += start.num_cached_tokens;
  }
  void OnText(std::string_view /*text*/) override {}
  void OnEnd(const TurnEnd& end) override {
    const double seconds = MonotonicSeconds() - start_seconds_;
    service_->run_waiting(answer_->call(), [service = service_, answer = answer_, name = name_,
                                            start = start_, before = before_, held = held_,
                                            stored = end.stored, seconds] {
      const std::string& tenant = answer->call().rules.tenant;
      const Result<Json> report = Report(*service, tenant, name, stored, start, before, seconds);
      answer->Send(report, {.status = HttpStatusOfStore(report.status()),
                            .num_prompt_tokens = start.num_prompt_tokens,
                            .num_cached_tokens = start.num_cached_tokens,
                            .first_token_seconds = seconds});
    });
  }
  void OnError(const Status& status) override { answer_->Send(status, {}); }

 private:
  // By the context's id: another request may have stored under the name since.
  static Result<Json> Report(const Service& service, const std::string& tenant,
                             const std::string& name, const StoreTicket& stored,
                             const TurnStart& start, const DBStats& before, double seconds) {
    ATTNDB_ASSIGN_OR_RETURN(const ContextId id, stored.Wait());
    ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(tenant));
    Result<ContextInfo> info = db.Describe(IdName(id));
    if (info.status().code() == StatusCode::kNotFound) {  // Replaced or dropped: it takes no bytes.
      info = ContextInfo{.id = id, .name = name, .num_tokens = start.num_prompt_tokens};
    }
    ATTNDB_RETURN_IF_ERROR(info.status());
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
    const uint64_t num_run = start.num_run_tokens;
    Json json = SummaryOf(*info);
    json["already_imported"] = false;
    json["reused_tokens"] = start.num_cached_tokens;
    json["new_tokens"] = num_run;
    json["seconds"] = seconds;
    json["tokens_per_second"] = seconds > 0 ? static_cast<double>(num_run) / seconds : 0;
    json["evicted"] = EvictedSince(before, stats);
    return json;
  }

  Service* const service_;
  const std::shared_ptr<ProgressAnswer> answer_;
  const std::string name_;
  const uint64_t num_tokens_;
  const DBStats before_;
  const std::shared_ptr<void> held_;
  const double start_seconds_;
  TurnStart start_;
};

// The ids that are to be stored. A client that is gone is not waited for, nor are tokens counted
// beyond what the model is meant for.
Result<llama::PromptText> TextOf(const Service& service, const Call& call, const DB& db,
                                 const ImportRequest& asked) {
  const uint64_t most = service.engine->info().max_context;
  const llama::TokenizeLimits limits = LimitsFor(service, call, most);
  Result<llama::PromptText> text =
      asked.append
          ? llama::AppendedText(*service.engine, db, asked.store.name, asked.text, limits)
          : llama::ImportedText(*service.engine, db,
                                {asked.store.name, asked.raw, asked.system, asked.text}, limits);
  if (!text.ok() || text->tokens.size() <= limits.max_tokens) return text;
  return Status::InvalidArgument("the text has more than the " + Counted(most, "token") + " that " +
                                 ModelName(service) + " is meant for");
}

// The context that a text is appended to, which stays what it was: its name, its pin and its time
// to live. Nobody else appends to it while `held` is.
struct AppendPlace {
  ContextInfo began;
  std::shared_ptr<void> held;
};

Result<AppendPlace> BeginAppend(Service* service, const DB& db, const std::string& tenant,
                                StoreOptions* store) {
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo found, db.Describe(store->name));
  if (found.name.empty()) {
    return Status::FailedPrecondition("context '" + store->name +
                                      "' has no name, by which a server stores");
  }
  AppendPlace place;
  ATTNDB_ASSIGN_OR_RETURN(place.held, service->appends->Begin(tenant, found.name));
  ATTNDB_ASSIGN_OR_RETURN(place.began, db.Describe(found.name));
  store->name = place.began.name;
  store->replace = true;
  ATTNDB_RETURN_IF_ERROR(FitAppend(db, place.began, store));
  return place;
}

// What `attndb import --dry-run` says. The server keeps no figure of how long it would take.
Result<Json> DryRun(const Service& service, const std::string& tenant, const std::string& name,
                    std::span<const TokenId> tokens) {
  ATTNDB_ASSIGN_OR_RETURN(const RoomReport report,
                          service.conversations->CheckRoom(tenant, tokens));
  return Json{{"context", name},
              {"dry_run", true},
              {"num_tokens", tokens.size()},
              {"reused_tokens", report.num_reused},
              {"new_tokens", tokens.size() - report.num_reused},
              {"new_bytes", report.new_bytes},
              {"evicted", report.evicted}};
}

// The answer where there is nothing to run: it gets the life that was asked for.
Result<Json> NothingToDo(const DB& db, const StoreOptions& store, bool is_dry) {
  if (store.pin && !is_dry) ATTNDB_RETURN_IF_ERROR(db.Pin(store.name));
  if (store.ttl && !is_dry) ATTNDB_RETURN_IF_ERROR(db.SetTtl(store.name, store.ttl));
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(store.name));
  Json json = SummaryOf(info);
  json["already_imported"] = true;
  return json;
}

Status Import(Service* service, const Call& call, ImportRequest asked) {
  const std::string& tenant = call.rules.tenant;
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service->conversations->HandleOf(tenant));
  AppendPlace place;
  if (asked.append) {
    ATTNDB_ASSIGN_OR_RETURN(place, BeginAppend(service, db, tenant, &asked.store));
  }
  ATTNDB_ASSIGN_OR_RETURN(llama::PromptText text, TextOf(*service, call, db, asked));
  std::vector<TokenId>& tokens = text.tokens;
  ATTNDB_ASSIGN_OR_RETURN(const bool is_there, IsImported(*service, db, asked.store, tokens));
  auto answer = std::make_shared<ProgressAnswer>(service, call, asked.stream);
  if (is_there) {
    answer->Send(NothingToDo(db, asked.store, asked.dry_run), {});
    return Status::Ok();
  }
  if (asked.dry_run) {
    const Result<Json> told = DryRun(*service, tenant, asked.store.name, tokens);
    answer->Send(told, {.status = HttpStatusOfStore(told.status())});
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
  if (asked.append) {
    turn.fit_store = [db, began = place.began](StoreOptions* store) {
      return FitAppend(db, began, store);
    };
  }
  // The token that is sampled behind the text is not run, so that it is not stored.
  turn.generate.max_tokens = 1;
  const uint64_t num_tokens = tokens.size();
  turn.prompt = std::move(tokens);
  turn.text = std::move(text.text);
  auto listener =
      std::make_shared<ImportListener>(service, std::move(answer), asked.store.name, num_tokens,
                                       std::move(before), std::move(place.held));
  return ScheduleTurn(service, call,
                      std::make_shared<Turn>(std::move(turn), std::move(start.session),
                                             std::move(start.rest), std::move(listener)),
                      start.is_unread);
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
    const Result<Json> body = ParseJson(call.request->body);
    const Result<ImportRequest> asked = body.ok() ? ParseImport(*body) : body.status();
    if (!asked.ok()) return AnswerCall(service, call, ErrorResponse(asked.status()));
    const Call kept = WithoutRequest(call);
    RunWhenStored(service, kept, asked->store.name, [service, kept, asked = *asked] {
      const Status status = Import(service, kept, asked);
      if (!status.ok()) AnswerCall(service, kept, ErrorResponse(status));
    });
  });
}

}  // namespace attndb::server
