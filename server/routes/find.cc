#include "server/routes/find.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engines/llama/found_passages.h"
#include "server/find/find_passages.h"
#include "server/openai/error.h"
#include "server/routes/find_request.h"

namespace attndb::server {
namespace {

Json JsonOf(const FoundPassages& found, std::span<const std::string> texts) {
  const FindResult& result = found.result;
  Json passages = Json::array();
  for (size_t i = 0; i < result.passages.size(); ++i) {
    const Passage& passage = result.passages[i];
    passages.push_back({{"context", passage.context},
                        {"first_token", passage.tokens.begin},
                        {"num_tokens", passage.tokens.end - passage.tokens.begin},
                        {"score", passage.score},
                        {"text", texts[i]}});
  }
  Json skipped = Json::array();
  for (const SkippedContext& context : result.skipped) {
    skipped.push_back({{"context", context.context}, {"reason", context.reason}});
  }
  return {{"passages", std::move(passages)},     {"skipped", std::move(skipped)},
          {"num_contexts", result.num_contexts}, {"num_tokens", result.num_tokens},
          {"num_passages", result.num_passages}, {"key_bytes", result.key_bytes},
          {"question_ms", found.question_ms},    {"find_ms", found.find_ms}};
}

Result<Json> AnswerOf(const Service& service, const Call& call, Result<FoundPassages> found) {
  ATTNDB_RETURN_IF_ERROR(found.status());
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(call.rules.tenant));
  llama::DropPassagesWithoutScore(&found->result);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                          llama::PassageTexts(*service.engine, db, found->result));
  return JsonOf(*found, texts);
}

}  // namespace

void RunWhenAllStored(Service* service, const Call& call, std::span<const std::string> names,
                      const std::function<void()>& work) {
  const std::string& tenant = call.rules.tenant;
  std::vector<std::string> awaited;
  std::ranges::copy_if(names, std::back_inserter(awaited), [&](const std::string& name) {
    return service->conversations->IsBeingStored(tenant, name);
  });
  if (awaited.empty()) return work();
  service->run_waiting(call, [service, call, tenant, awaited, work] {
    for (const std::string& name : awaited) {
      (void)service->conversations->WaitFor(tenant, name);
    }
    service->run_later(call, work);
  });
}

void AnswerFind(Service* service, Call call) {
  service->run_later(call, [service, call] {
    const Result<Json> body = ParseJson(call.request->body);
    const Result<FindRequest> asked = body.ok() ? ParseFind(*body) : body.status();
    if (!asked.ok()) return AnswerCall(service, call, ErrorResponse(asked.status()));
    const Call kept = WithoutRequest(call);
    RunWhenAllStored(service, kept, asked->options.contexts, [service, kept, asked = *asked] {
      FindPassages(service, kept, {asked.question, asked.options},
                   [service, kept](Result<FoundPassages> found) {
                     AnswerCall(service, kept, AnswerOf(*service, kept, std::move(found)));
                   });
    });
  });
}

}  // namespace attndb::server
