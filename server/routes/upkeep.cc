#include "server/routes/upkeep.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "attndb/db.h"
#include "server/openai/error.h"
#include "server/routes/progress_answer.h"
#include "server/routes/store_request.h"

namespace attndb::server {
namespace {

using Progress = std::function<bool(uint64_t, uint64_t)>;

Result<Json> Verify(const DB& db, const UpkeepRequest& request, Progress progress) {
  VerifyOptions options;
  options.context = request.context;
  options.progress = std::move(progress);
  ATTNDB_ASSIGN_OR_RETURN(const VerifyReport report, db.Verify(options));
  Json damages = Json::array();
  for (const Damage& damage : report.damages) {
    damages.push_back({{"segment_id", damage.segment_id},
                       {"file", damage.file},
                       {"message", damage.message},
                       {"contexts", damage.contexts}});
  }
  return Json{{"ok", report.ok()},
              {"num_segments", report.num_segments},
              {"num_bytes", report.num_bytes},
              {"damages", std::move(damages)}};
}

// The planes of what it merged are built in the background, as the server's others are.
Result<Json> Compact(const DB& db, const UpkeepRequest& request, Progress progress) {
  ATTNDB_ASSIGN_OR_RETURN(const DBStats before, db.Stats());
  const double start_seconds = MonotonicSeconds();
  CompactOptions options;
  options.context = request.context;
  options.segment_tokens = request.segment_tokens;
  options.progress = std::move(progress);
  ATTNDB_RETURN_IF_ERROR(db.Compact(options));
  ATTNDB_ASSIGN_OR_RETURN(const DBStats after, db.Stats());
  return Json{{"num_contexts_before", before.num_contexts},   {"num_contexts", after.num_contexts},
              {"num_segments_before", before.num_segments},   {"num_segments", after.num_segments},
              {"file_bytes_before", before.file_bytes},       {"file_bytes", after.file_bytes},
              {"seconds", MonotonicSeconds() - start_seconds}};
}

Result<Json> Build(const DB& db, const UpkeepRequest& request, Progress progress) {
  BuildOptions options;
  options.progress = std::move(progress);
  ATTNDB_ASSIGN_OR_RETURN(const BuildReport report,
                          db.Build(request.context, request.index, options));
  return Json{{"kind", report.kind},
              {"num_built", report.num_built},
              {"num_present", report.num_present},
              {"num_too_short", report.num_too_short},
              {"num_missing", report.num_missing},
              {"file_bytes", report.file_bytes},
              {"seconds", report.seconds}};
}

Result<Json> SetQuota(const DB& db, const std::string& text) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(text));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t bytes, ParseQuota(body));
  ATTNDB_RETURN_IF_ERROR(db.SetQuota(bytes));
  ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
  return Json{{"quota_bytes", stats.quota_bytes}, {"file_bytes", stats.file_bytes}};
}

// False: it was answered.
bool IsOperator(Service* service, const Call& call) {
  if (call.rules.is_operator) return true;
  AnswerCall(service, call, ErrorResponse(403, "this is for operators: ask with the key of one"));
  return false;
}

// What waits, waits for minutes: whoever would be behind these may as well ask later.
constexpr uint32_t kMaxChores = 8;

using Chore = Result<Json> (*)(const DB& db, const UpkeepRequest& request, Progress progress);

Result<Json> Run(Service* service, Chore chore, const UpkeepRequest& request,
                 ProgressAnswer* answer) {
  const Call& call = answer->call();
  (void)service->conversations->WaitFor(call.rules.tenant, request.context);
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service->conversations->HandleOf(call.rules.tenant));
  return chore(db, request, [&](uint64_t bytes_done, uint64_t bytes_total) {
    answer->Progress(bytes_done, bytes_total);
    return !service->stopping && !call.responder->closed();
  });
}

void Answer(Service* service, Call call, Chore chore) {
  if (!IsOperator(service, call)) return;
  const Result<Json> body = ParseJson(call.request->body);
  const Result<UpkeepRequest> request = body.ok() ? ParseUpkeep(*body) : body.status();
  if (!request.ok()) return AnswerCall(service, call, ErrorResponse(request.status()));
  const std::shared_ptr<Service> place(service, [](Service* s) { --s->num_chores; });
  if (service->num_chores++ >= kMaxChores) {
    return AnswerCall(
        service, call,
        ErrorResponse(503, "what others have asked for is under way, and more waits"));
  }
  call.request.reset();
  auto answer = std::make_shared<ProgressAnswer>(service, call, request->stream);
  answer->Begin();
  call.place.LetGo();  // The answer has it.
  service->run_chore(call, [service, place, answer, chore, request = *request] {
    const Result<Json> json = Run(service, chore, request, answer.get());
    answer->Send(json, {.status = HttpStatusOfStore(json.status())});
  });
}

}  // namespace

void AnswerVerify(Service* service, Call call) { Answer(service, std::move(call), Verify); }
void AnswerCompact(Service* service, Call call) { Answer(service, std::move(call), Compact); }
void AnswerBuild(Service* service, Call call) { Answer(service, std::move(call), Build); }

void AnswerQuota(Service* service, Call call) {
  if (!IsOperator(service, call)) return;
  service->run_later(call, [service, call] {
    const Result<DB> db = service->conversations->HandleOf(call.rules.tenant);
    const Result<Json> json = db.ok() ? SetQuota(*db, call.request->body) : db.status();
    if (json.ok()) return AnswerCall(service, call, json);
    AnswerCall(service, call, ErrorResponse(HttpStatusOfStore(json.status()), json.status()));
  });
}

}  // namespace attndb::server
