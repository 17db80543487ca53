#include "server/service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "attndb/units.h"
#include "engines/llama/window.h"
#include "server/clock.h"
#include "server/openai/error.h"

namespace attndb::server {
namespace {

// K and V of the tokens that the turn may run, up to the window. What it reuses is not among them:
// stored K and V are read where there is room and dropped for others' (memory_budget.h), and those
// of a session in memory are there already. Choices share the prompt, but for the block of tokens
// in which it ends.
uint64_t BytesOf(const Service& service, const Turn& turn) {
  const llama::GenerateOptions& generate = turn.request().generate;
  const uint64_t window = generate.prefill.window.window_tokens;
  const auto within = [window](uint64_t num_tokens) {
    return window > 0 ? std::min(num_tokens, window) : num_tokens;
  };
  const uint64_t num_choice = ForkTokens(turn.rest().size()) + within(generate.max_tokens);
  const uint64_t num_tokens =
      within(turn.rest().size() + generate.max_tokens) + turn.choices().size() * num_choice;
  return num_tokens * service.engine->spec().KvBytesPerToken();
}

// What is answered is stored: what can't be is not begun. A prompt beyond the window loses tokens
// on its way, so that nobody knows yet what will be stored.
Status CheckRoom(const Service& service, const TenantRules& rules, const Turn& turn) {
  const uint64_t window = turn.request().generate.prefill.window.window_tokens;
  const std::vector<TokenId>& prompt = turn.request().prompt;
  const uint64_t num_seen = prompt.size() - llama::NumTokensOf(turn.request().left_out);
  const bool is_stored = turn.request().replies && turn.request().is_kept;
  if (!is_stored || (window > 0 && num_seen > window)) return Status::Ok();
  return service.conversations->CheckRoom(rules.tenant, prompt).status();  // Choices share it.
}

void AddTurn(Service* service, const std::shared_ptr<Turn>& turn) {
  const Status status = service->scheduler->Add(turn);
  if (!status.ok()) turn->Refuse(status);
}

}  // namespace

Call WithoutRequest(Call call) {
  call.request.reset();
  return call;
}

void RunWhenStored(Service* service, const Call& call, const std::string& name,
                   const std::function<void()>& work) {
  const std::string& tenant = call.rules.tenant;
  if (!service->conversations->IsBeingStored(tenant, name)) return work();
  service->run_waiting(call, [service, call, tenant, name, work] {
    (void)service->conversations->WaitFor(tenant, name);
    service->run_later(call, work);
  });
}

void NoteEnd(Service* service, const Call& call, const CallEnd& end) {
  if (call.noted->exchange(true)) return;
  service->metrics->CountRequest(call.route, end.status);
  service->log->Write({.time_us = NowMicros(),
                       .request_id = call.id,
                       .method = call.method,
                       .route = call.route,
                       .path = call.lost_path,
                       .tenant = call.rules.tenant,
                       .status = end.status,
                       .seconds = MonotonicSeconds() - call.received_seconds,
                       .num_prompt_tokens = end.num_prompt_tokens,
                       .num_cached_tokens = end.num_cached_tokens,
                       .num_reply_tokens = end.num_reply_tokens,
                       .first_token_seconds = end.first_token_seconds,
                       .num_cut_tokens = end.num_cut_tokens,
                       .parted = end.parted,
                       .num_ignored_lines = end.num_ignored_lines});
}

void AnswerCall(Service* service, const Call& call, Response response) {
  NoteEnd(service, call, {.status = response.status});
  call.place.Free();  // Before the client knows, who may ask again at once.
  call.responder->Send(std::move(response));
}

void AnswerCall(Service* service, const Call& call, const Result<Json>& json) {
  AnswerCall(service, call,
             json.ok() ? Response{.body = ToText(*json)} : ErrorResponse(json.status()));
}

void AnswerLater(Service* service, const Call& call,
                 Result<Json> (*answer)(const Service& service, const Call& call)) {
  service->run_later(
      call, [service, call, answer] { AnswerCall(service, call, answer(*service, call)); });
}

uint64_t WindowTokens(const Service& service) {
  const uint64_t asked = service.options.window_tokens;
  return asked > 0 ? asked : service.engine->info().max_context;
}

llama::TokenizeLimits LimitsFor(const Service& service, const Call& call, uint64_t max_tokens) {
  llama::TokenizeLimits limits;
  if (max_tokens > 0) limits.max_tokens = max_tokens;
  limits.progress = [&service, responder = call.responder](uint64_t, uint64_t) {
    return !service.is_cut && !responder->closed();
  };
  return limits;
}

Status CheckAwaited(const Service& service, const Call& call) {
  if (!service.is_cut && !call.responder->closed()) return Status::Ok();
  return Status::Cancelled("nobody waits for the answer");
}

std::string CountedTokens(const Call& call, uint64_t num_tokens) {
  const bool may_be_more = call.body_bytes > llama::TokenizeLimits().piece_bytes;
  return (may_be_more ? "at least " : "") + Counted(num_tokens, "token");
}

uint64_t PromisableTokens(const Service& service) {
  const uint64_t most = service.gate->limit_bytes();
  return most == 0 ? UINT64_MAX : most / service.engine->spec().KvBytesPerToken();
}

void AddWhenPromised(Service* service, const std::shared_ptr<Turn>& turn) {
  const auto add = [service, turn](MemoryGate::Place place) {
    if (place == nullptr) return turn->Refuse(Status::Cancelled("the server stops"));
    turn->Hold(std::move(place));
    AddTurn(service, turn);
  };
  const Status status = service->gate->Enter(BytesOf(*service, *turn), add);
  if (!status.ok()) turn->Refuse(status);
}

Status ScheduleTurn(Service* service, const Call& call, const std::shared_ptr<Turn>& turn,
                    bool is_unread) {
  const Status room = CheckRoom(*service, call.rules, *turn);
  if (room.code() == StatusCode::kResourceExhausted) {
    AnswerCall(service, call, ErrorResponse(HttpStatusOfStore(room), room));
    return Status::Ok();
  }
  ATTNDB_RETURN_IF_ERROR(room);
  // The scheduler has the turn soon.
  std::vector<std::weak_ptr<Turn>> turns = {turn};
  turns.insert(turns.end(), turn->choices().begin(), turn->choices().end());
  turn->CountWith([service, tenant = call.rules.tenant](uint64_t num_tokens) {
    service->admission->Count(tenant, num_tokens, MonotonicSeconds());
  });
  const auto begin = [=](MemoryGate::Place place) {
    if (place == nullptr) return turn->Refuse(Status::Cancelled("the server stops"));
    turn->Hold(std::move(place));
    if (!is_unread) return AddTurn(service, turn);
    ++service->metrics->num_loading;
    std::shared_ptr<void> loading(nullptr, [service](void*) { --service->metrics->num_loading; });
    auto load = [service, turn, loading = std::move(loading)]() mutable {
      service->conversations->Load(turn->session());
      loading.reset();
      AddTurn(service, turn);
    };
    service->run_loading(call, std::move(load), [turn] { return turn->cancelled(); });
  };
  ATTNDB_RETURN_IF_ERROR(
      service->gate->Enter(BytesOf(*service, *turn), begin, [turn] { return turn->cancelled(); }));
  Call ended = call;
  ended.responder.reset();  // It holds this.
  ended.place.LetGo();
  call.responder->OnClosed([service, ended = std::move(ended), turns = std::move(turns)] {
    bool has_left = false;
    for (const std::weak_ptr<Turn>& weak : turns) {
      const auto gone = weak.lock();
      if (gone == nullptr) continue;
      gone->Cancel();
      has_left = true;
    }
    if (!has_left) return;
    ++service->metrics->num_cancelled;
    NoteEnd(service, ended, {.status = kClientGone});
    service->gate->LookForGone();
    service->loads->LookForGone();
    service->scheduler->Wake();
  });
  return Status::Ok();
}

}  // namespace attndb::server
