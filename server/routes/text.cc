#include "server/routes/text.h"

#include <memory>
#include <utility>
#include <vector>

#include "server/clock.h"
#include "server/openai/text_answer.h"
#include "server/openai/text_request.h"
#include "server/routes/text_call.h"

namespace attndb::server {
namespace {

// OpenAI's interface: Chat Completions, or Completions.
TextInterface OpenAi(bool is_chat) {
  const auto writers = [is_chat](Service* service, const Call& call, const TextRequest& asked) {
    const auto answer = std::make_shared<TextChoices>(
        call.responder, AnswerStyle{.is_chat = is_chat,
                                    .stream = asked.stream,
                                    .include_usage = asked.include_usage,
                                    .logprobs = asked.logprobs,
                                    .model = service->options.model_id,
                                    .created = NowSeconds(),
                                    .num_choices = asked.num_choices});
    std::vector<std::shared_ptr<ReplyWriter>> choices;
    for (size_t i = 0; i < asked.num_choices; ++i) {
      choices.push_back(std::make_shared<TextAnswer>(answer, i));
    }
    return choices;
  };
  return {.is_chat = is_chat, .parse = is_chat ? ParseChat : ParseCompletion, .writers = writers};
}

}  // namespace

void AnswerChat(Service* service, Call call) {
  AnswerText(service, std::move(call), OpenAi(/*is_chat=*/true));
}
void AnswerCompletion(Service* service, Call call) {
  AnswerText(service, std::move(call), OpenAi(/*is_chat=*/false));
}

}  // namespace attndb::server
