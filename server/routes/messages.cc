#include "server/routes/messages.h"

#include <memory>
#include <string>
#include <utility>

#include "server/anthropic/message_answer.h"
#include "server/anthropic/message_request.h"
#include "server/openai/error.h"
#include "server/routes/text_call.h"

namespace attndb::server {
namespace {

std::shared_ptr<ReplyWriter> WriterOf(Service* service, const Call& call,
                                      const TextRequest& asked) {
  MessageStyle style = {.stream = asked.stream,
                        .model = service->options.model_id,
                        .request_id = call.id,
                        .stop_sequences = asked.stop};
  return std::make_shared<MessageAnswer>(call.responder, std::move(style));
}

Result<Json> CountTokens(const Service& service, const Call& call) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(call.request->body, kWideFields));
  ATTNDB_ASSIGN_OR_RETURN(TextRequest asked, ParseTokenCount(body));
  const std::string header(call.request->Header("x-attndb-context"));
  ATTNDB_RETURN_IF_ERROR(TakeContextHeader(header, &asked));
  PrepareChat(service, &asked);
  ATTNDB_ASSIGN_OR_RETURN(
      const uint64_t num_tokens,
      service.prompts->NumTokensOfChat(call.rules.tenant, asked.context, asked.messages, asked.chat,
                                       LimitsFor(service, call, 0)));
  return Json{{"input_tokens", num_tokens}};
}

}  // namespace

void AnswerMessages(Service* service, Call call) {
  AnswerText(service, std::move(call), {.parse = ParseMessages, .writer = WriterOf});
}

void AnswerCountTokens(Service* service, Call call) { AnswerLater(service, call, CountTokens); }

}  // namespace attndb::server
