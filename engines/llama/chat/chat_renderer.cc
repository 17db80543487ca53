#include "engines/llama/chat/chat_renderer.h"

#include <openssl/sha.h>

#include <utility>

#include "engines/llama/chat/chat_wire.h"

namespace attndb::llama {

std::string ParserIdOf(const std::string& parser) {
  std::string id(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(parser.data()), parser.size(),
         reinterpret_cast<unsigned char*>(id.data()));
  return id;
}

ChatRenderer::ChatRenderer(const std::string& program, const TemplateText& text)
    : has_program_(!program.empty()),
      templates_(program, TemplateFields(text), "the chat template was not applied"),
      replies_(program, {}, "the reply was not read"),
      schemas_(program, {}, "the JSON schema was not compiled") {}

Status ChatRenderer::Check() { return templates_.Check(); }

Result<std::map<std::string, bool>> ChatRenderer::Caps() {
  ATTNDB_ASSIGN_OR_RETURN(const ChatFields answer, templates_.Ask({{"op", "caps"}}));
  return CapsOf(answer);
}

Result<ChatPlan> ChatRenderer::Render(const ChatInput& input) {
  ChatFields request = ChatInputFields(input);
  request["op"] = "render";
  ATTNDB_ASSIGN_OR_RETURN(const ChatFields answer, templates_.Ask(request));
  return PlanOf(answer);
}

Result<std::string> ChatRenderer::RenderText(const ChatInput& input) {
  ChatFields request = ChatInputFields(input);
  request["op"] = "markup";
  ATTNDB_ASSIGN_OR_RETURN(ChatFields answer, templates_.Ask(request));
  return std::move(answer["prompt"]);
}

Result<ReadReply> ChatRenderer::Read(const ReplyForm& form, std::string_view text,
                                     bool is_partial) {
  if (form.parser.empty()) {
    return ReadReply{.content = std::string(text), .reasoning = {}, .calls = {}};
  }
  ChatFields request = {
      {"op", "read"},
      {"parser_id", form.parser_id.empty() ? ParserIdOf(form.parser) : form.parser_id},
      {"format", std::to_string(form.format)},
      {"generation_prompt", form.generation_prompt},
      {"text", std::string(text)}};
  if (is_partial) request["partial"] = "";
  ATTNDB_ASSIGN_OR_RETURN(ChatFields answer, replies_.Ask(request));
  // Between both requests the process may have been replaced, or asked for others' replies.
  if (answer.contains("unknown_parser")) {
    request["parser"] = form.parser;
    ATTNDB_ASSIGN_OR_RETURN(answer, replies_.Ask(request));
  }
  return ReplyOf(answer);
}

Result<std::string> ChatRenderer::GrammarOfSchema(std::string_view json_schema) {
  ATTNDB_ASSIGN_OR_RETURN(ChatFields answer,
                          schemas_.Ask({{"op", "schema"}, {"schema", std::string(json_schema)}}));
  return std::move(answer["grammar"]);
}

}  // namespace attndb::llama
