#include "engines/llama/chat/reply_parsers.h"

#include <llama-common/chat.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace attndb::llama {

struct ReplyParsers::Kept {
  std::string id;
  common_chat_parser_params params;
};

ReplyParsers::ReplyParsers() = default;
ReplyParsers::~ReplyParsers() = default;

bool ReplyParsers::Knows(std::string_view id) const {
  return std::ranges::any_of(kept_, [id](const auto& kept) { return kept->id == id; });
}

Status ReplyParsers::Add(const std::string& id, const std::string& parser) {
  try {
    auto kept = std::make_unique<Kept>();
    kept->id = id;
    kept->params.parser.load(parser);
    kept_.push_front(std::move(kept));
  } catch (const std::exception& error) {
    return Status::InvalidArgument(std::string("the parser of replies can't be read: ") +
                                   error.what());
  }
  if (kept_.size() > kKeptParsers) kept_.pop_back();
  return Status::Ok();
}

Result<ReadReply> ReplyParsers::Read(std::string_view id, const ReplyForm& form,
                                     const std::string& text, bool is_partial) {
  const auto found = std::ranges::find_if(kept_, [id](const auto& kept) { return kept->id == id; });
  kept_.splice(kept_.begin(), kept_, found);
  common_chat_parser_params& params = kept_.front()->params;
  params.format = static_cast<common_chat_format>(form.format);
  params.generation_prompt = form.generation_prompt;
  try {
    common_chat_msg message = common_chat_parse(text, is_partial, params);
    // llama.cpp reads a beginning without the form as an empty reply, and a whole as an error.
    if (is_partial && message.empty()) message = common_chat_parse(text, false, params);
    ReadReply reply = {.content = std::move(message.content),
                       .reasoning = std::move(message.reasoning_content),
                       .calls = {}};
    for (common_chat_tool_call& call : message.tool_calls) {
      reply.calls.push_back({std::move(call.id), std::move(call.name), std::move(call.arguments)});
    }
    return reply;
  } catch (const std::exception& error) {
    return Status::InvalidArgument(error.what());
  }
}

}  // namespace attndb::llama
