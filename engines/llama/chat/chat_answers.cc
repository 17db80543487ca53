#include "engines/llama/chat/chat_answers.h"

#include <utility>

#include "engines/llama/chat/chat_wire.h"
#include "engines/llama/chat/schema_grammar.h"

namespace attndb::llama {

ChatFields ChatAnswers::Answer(const ChatFields& request) {
  Result<ChatFields> answer = TryAnswer(request);
  if (!answer.ok()) return {{"error", std::string(answer.status().message())}};
  return *std::move(answer);
}

Result<ChatFields> ChatAnswers::TryAnswer(const ChatFields& request) {
  const std::string op = FieldOf(request, "op");
  if (op == "read") return Read(request);
  if (op == "schema") {
    ATTNDB_ASSIGN_OR_RETURN(std::string grammar, GrammarOfSchema(FieldOf(request, "schema")));
    return ChatFields{{"grammar", std::move(grammar)}};
  }
  if (op == "template") {
    ATTNDB_ASSIGN_OR_RETURN(JinjaTemplate parsed, JinjaTemplate::Parse(TemplateOf(request)));
    template_.emplace(std::move(parsed));
    return ChatFields();
  }
  if (!template_) return Status::InvalidArgument("there is no chat template");
  if (op == "caps") return CapsFields(template_->Caps());
  if (op == "markup") {
    ATTNDB_ASSIGN_OR_RETURN(std::string prompt, template_->RenderText(ChatInputOf(request)));
    return ChatFields{{"prompt", std::move(prompt)}};
  }
  ATTNDB_ASSIGN_OR_RETURN(const ChatPlan plan, template_->Render(ChatInputOf(request)));
  return PlanFields(plan);
}

Result<ChatFields> ChatAnswers::Read(const ChatFields& request) {
  const std::string id = FieldOf(request, "parser_id");
  if (!parsers_.Knows(id)) {
    const auto parser = request.find("parser");
    if (parser == request.end()) return ChatFields{{"unknown_parser", ""}};
    ATTNDB_RETURN_IF_ERROR(parsers_.Add(id, parser->second));
  }
  ATTNDB_ASSIGN_OR_RETURN(const ReadReply reply,
                          parsers_.Read(id, PlanOf(request).form, FieldOf(request, "text"),
                                        request.contains("partial")));
  return ReplyFields(reply);
}

}  // namespace attndb::llama
