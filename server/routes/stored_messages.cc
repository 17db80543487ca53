#include "server/routes/stored_messages.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/batch/kept_text.h"
#include "server/openai/chat_messages.h"
#include "server/openai/error.h"
#include "server/responses/items.h"
#include "server/routes/responses.h"
#include "server/routes/store_request.h"
#include "server/routes/text_call.h"

namespace attndb::server {
namespace {

const char* NameOf(TextRole role) {
  switch (role) {
    case TextRole::kSystem:
      return "system";
    case TextRole::kUser:
      return "user";
    case TextRole::kAssistant:
      return kAssistantRole;
    case TextRole::kOther:
      break;
  }
  return "tool";
}

const char* NameOf(TextForm form) {
  switch (form) {
    case TextForm::kRaw:
      return "raw";
    case TextForm::kDocument:
      return "document";
    case TextForm::kDialogue:
      return "dialogue";
    case TextForm::kUnknown:
      break;
  }
  return "unknown";
}

std::string IdName(ContextId id) { return "#" + std::to_string(static_cast<uint64_t>(id)); }

constexpr int kMaxTurns = 1024;  // Earlier ones that are looked at.

// Adds a message where the layout has none at its place.
void AddWhereFree(const TextMessage& message, std::vector<TextMessage>* messages) {
  const auto behind = std::ranges::find_if(
      *messages, [&](const TextMessage& other) { return other.tokens.end > message.tokens.begin; });
  const bool is_free = behind == messages->end() || behind->tokens.begin >= message.tokens.end;
  if (is_free) messages->insert(behind, message);
}

// A reply that calls tools has no content in the prompts behind it, and no place in their layouts.
// The turn that ended with this reply knows its place. Turns that are gone are left out.
void AddCalls(const DB& db, ContextId before, uint64_t num_tokens, TextLayout* text) {
  const bool has_results = std::ranges::any_of(
      text->messages, [](const TextMessage& one) { return one.role == TextRole::kOther; });
  if (!has_results) return;
  for (int i = 0; i < kMaxTurns && before != ContextId::kNone; ++i) {
    const Result<ContextInfo> turn = db.Describe(IdName(before));
    if (!turn.ok() || turn->num_tokens > num_tokens) return;
    const std::vector<TextMessage>& messages = turn->text_layout.messages;
    if (!messages.empty() && messages.back().role == TextRole::kAssistant) {
      AddWhereFree(messages.back(), &text->messages);
    }
    before = turn->continues;
  }
}

// The tokens of a context, and whose words they are. Those of a damaged context are read, too.
Result<KeptText> TextOf(const Service& service, const std::string& tenant,
                        const std::string& context) {
  if (const auto unstored = service.conversations->UnstoredText(tenant, context)) return *unstored;
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context));
  // By its id: the name may be given to another context between the two calls.
  KeptText kept;
  ATTNDB_ASSIGN_OR_RETURN(kept.tokens, db.Tokens(IdName(info.id)));
  const ModelSpec& spec = service.engine->spec();
  if (info.fingerprint != spec.fingerprint) {  // The store says whose the context is.
    ATTNDB_RETURN_IF_ERROR(db.CreateSession(spec, kept.tokens, {.context = context}).status());
  }
  // It keeps its id when it grows.
  if (info.num_tokens != kept.tokens.size()) return kept;
  kept.text = info.text_layout;
  AddCalls(db, info.continues, kept.tokens.size(), &kept.text);
  return kept;
}

// How replies of this model are read. Without a template, all of a reply is content.
llama::ReplyForm FormOf(const Service& service) {
  TextRequest question;
  question.messages.push_back({"user", "x"});
  PrepareChat(service, &question);
  Result<llama::RenderedPrompt> rendered = service.engine->Render(question.messages, question.chat);
  return rendered.ok() ? std::move(rendered->form) : llama::ReplyForm();
}

bool HasThoughts(const llama::ReplyForm& form, const std::string& reply) {
  if (!form.can_think || form.parser.empty()) return false;
  const auto has = [&reply](const std::string& mark) {
    return !mark.empty() && reply.find(mark) != std::string::npos;
  };
  if (has(form.thinking_start)) return true;
  return std::ranges::any_of(form.thinking_ends, has);
}

// A reply whose thoughts can't be read is content, as the model wrote it.
Result<Json> ReplyOf(const llama::LlamaEngine& engine, const llama::ReplyForm& form,
                     std::span<const TokenId> tokens) {
  Json message = {{"role", kAssistantRole}};
  ATTNDB_ASSIGN_OR_RETURN(message["content"], engine.ReplyText(tokens));
  ATTNDB_ASSIGN_OR_RETURN(const std::string whole, engine.Detokenize(tokens, true));
  if (!HasThoughts(form, whole)) return message;
  Result<llama::ReadReply> read = engine.ReadReplyText(form, whole, /*is_partial=*/false);
  if (!read.ok()) read = engine.ReadReplyText(form, whole, /*is_partial=*/true);  // It was cut.
  if (!read.ok() || read->reasoning.empty()) return message;
  message["content"] = read->content;
  message[kReasoning] = read->reasoning;
  return message;
}

Result<Json> MessagesIn(const Service& service, const Call& call, const KeptText& kept) {
  const llama::ReplyForm form = FormOf(service);
  Json messages = Json::array();
  for (const TextMessage& message : kept.text.messages) {
    ATTNDB_RETURN_IF_ERROR(CheckAwaited(service, call));
    const auto [begin, end] = message.tokens;
    const auto tokens = std::span(kept.tokens).subspan(begin, end - begin);
    if (message.role == TextRole::kAssistant) {
      ATTNDB_ASSIGN_OR_RETURN(Json reply, ReplyOf(*service.engine, form, tokens));
      messages.push_back(std::move(reply));
      continue;
    }
    ATTNDB_ASSIGN_OR_RETURN(const std::string text, service.engine->Detokenize(tokens));
    messages.push_back({{"role", NameOf(message.role)}, {"content", text}});
  }
  return messages;
}

Result<Json> Messages(const Service& service, const Call& call, const std::string& context) {
  const std::string& tenant = call.rules.tenant;
  ATTNDB_ASSIGN_OR_RETURN(const KeptText kept, TextOf(service, tenant, context));
  Json json = {
      {"context", context}, {"num_tokens", kept.tokens.size()}, {"form", NameOf(kept.text.form)}};
  // A response's own record has its tool calls, too.
  const Result<ChatMessages> recorded = ConversationOf(service, tenant, context);
  if (recorded.ok()) {
    json["messages"] = JsonOfMessages(*recorded);
  } else {
    ATTNDB_ASSIGN_OR_RETURN(json["messages"], MessagesIn(service, call, kept));
  }
  return json;
}

}  // namespace

void AnswerStoredMessages(Service* service, Call call) {
  service->run_later(call, [service, call] {
    const Result<Json> body = ParseJson(call.request->body);
    if (!body.ok()) return AnswerCall(service, call, ErrorResponse(body.status()));
    const Result<StoredTextRequest> asked = ParseStoredText(*body);
    if (!asked.ok()) return AnswerCall(service, call, ErrorResponse(asked.status()));
    const std::string context = asked->context;
    RunWhenStored(service, call, context, [service, call, context] {
      AnswerCall(service, call, Messages(*service, call, context));
    });
  });
}

}  // namespace attndb::server
