#include "server/routes/find.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engines/llama/found_passages.h"
#include "engines/llama/prompt_layout.h"
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
    // A client is not told where the store has its files.
    const bool names_file = context.reason.find('/') != std::string::npos;
    skipped.push_back(
        {{"context", context.context}, {"reason", names_file ? "damaged" : context.reason}});
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

// The contexts of passages, best first, `count` at most. Conversations are not among them: an
// earlier one with the same question would always be the best.
std::vector<std::string> DocumentsOf(const Service& service, const Call& call,
                                     const FindResult& found, uint32_t count) {
  std::vector<std::string> documents;
  const Result<DB> db = service.conversations->HandleOf(call.rules.tenant);
  if (!db.ok()) return documents;
  for (std::string& context : llama::ContextsOf(found.passages, kMaxFoundPassages)) {
    if (documents.size() == count) break;
    const Result<llama::StoredContext> stored = llama::OpenContext(*service.engine, *db, context);
    if (!stored.ok() || stored->layout == llama::PromptLayout::kDialogue) continue;
    documents.push_back(std::move(context));
  }
  return documents;
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

void FindSources(Service* service, const Call& call, TextRequest* asked,
                 std::function<void(Status)> then) {
  TextSources* const sources = &asked->sources;
  const uint32_t count = std::exchange(sources->find, 0);
  if (count == 0) return then(Status::Ok());
  if (asked->messages.empty() && asked->prompt.empty()) {
    return then(Status::InvalidArgument("'find' needs a text: 'prompt' has ids of tokens"));
  }
  FindAsked find;
  find.question = asked->messages.empty() ? asked->prompt : asked->messages.back().content;
  find.options.limit = kMaxFoundPassages;  // Far more than contexts are asked for.
  find.options.contexts = std::exchange(sources->contexts, {});
  if (!asked->context.empty()) find.options.contexts = {std::exchange(asked->context, "")};
  FindPassages(service, call, std::move(find),
               [service, call, asked, sources, count, then](const Result<FoundPassages>& found) {
                 if (!found.ok()) return then(found.status());
                 sources->contexts = DocumentsOf(*service, call, found->result, count);
                 if (sources->contexts.empty()) {
                   return then(Status::NotFound("no document has a passage for the question"));
                 }
                 sources->found = sources->contexts;
                 if (sources->contexts.size() == 1) {
                   asked->context = std::move(sources->contexts.front());
                   sources->contexts.clear();
                 }
                 service->run_later(call, [then] { then(Status::Ok()); });
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
