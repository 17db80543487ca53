#include "server/routes/stored_messages.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/context_name.h"
#include "engines/llama/window.h"
#include "server/batch/edits.h"
#include "server/batch/kept_text.h"
#include "server/chat/stored_replies.h"
#include "server/openai/chat_messages.h"
#include "server/openai/error.h"
#include "server/responses/items.h"
#include "server/routes/responses.h"
#include "server/routes/store_request.h"
#include "server/routes/stored_calls.h"
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

constexpr size_t kMessagesAtOnce = 16;  // Read before the work of other requests.

struct StoredTalk {
  uint64_t num_tokens = 0;  // All tokens of the context, its pieces included.
  KeptText kept;            // Without these pieces.
  std::string tools;        // As ChatOptions has them.
};

// The tokens of a context, and whose words they are. Those of a damaged context are read, too.
Result<StoredTalk> TalkOf(const Service& service, const std::string& tenant,
                          const std::string& context) {
  StoredTalk talk;
  KeptText& kept = talk.kept;
  if (const auto unstored = service.conversations->UnstoredText(tenant, context)) {
    kept = *unstored;
    talk.num_tokens = kept.tokens.size();
    TakeOutPieces(&kept);
    return talk;
  }
  ATTNDB_ASSIGN_OR_RETURN(const DB db, service.conversations->HandleOf(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context));
  // By its id: the name may be given to another context between the two calls.
  ATTNDB_ASSIGN_OR_RETURN(kept.tokens, db.Tokens(IdName(info.id)));
  talk.num_tokens = kept.tokens.size();
  const ModelSpec& spec = service.engine->spec();
  if (info.fingerprint != spec.fingerprint) {  // The store says whose the context is.
    ATTNDB_RETURN_IF_ERROR(db.CreateSession(spec, kept.tokens, {.context = context}).status());
  }
  // It keeps its id when it grows.
  if (info.num_tokens != kept.tokens.size()) return talk;
  kept.text = info.text_layout;
  AddStoredCalls(db, info.continues, kept.tokens.size(), &kept.text);
  talk.tools = ToolsOf(db, info.id, kept.text);
  kept.left_out = llama::PiecesOf(info.cuts, info.text_layout);
  TakeOutPieces(&kept);
  return talk;
}

// Returns how replies of this model are read. Without a template, all of a reply is content.
llama::ReplyForm FormOf(const Service& service, const std::string& tools) {
  TextRequest question;
  question.messages.push_back({"user", "x"});
  question.chat.tools = tools;
  PrepareChat(service, &question);
  Result<llama::RenderedPrompt> rendered = service.engine->Render(question.messages, question.chat);
  return rendered.ok() ? std::move(rendered->form) : llama::ReplyForm();
}

// An answer on its way. A conversation may have thousands of replies, and each takes time to be
// read: after some of them, the work of other requests comes first.
class MessagesAnswer : public std::enable_shared_from_this<MessagesAnswer> {
 public:
  MessagesAnswer(Service* service, Call call, std::string context)
      : service_(service), call_(std::move(call)), context_(std::move(context)) {}

  void Begin() {
    const Status status = Open();
    if (!status.ok()) return AnswerCall(service_, call_, ErrorResponse(status));
    if (replies_) return GoOn();
    Send();
  }

 private:
  // Reads the context. A response's own record has all of its messages: none is left to read then.
  Status Open() {
    const std::string& tenant = call_.rules.tenant;
    ATTNDB_ASSIGN_OR_RETURN(StoredTalk talk, TalkOf(*service_, tenant, context_));
    kept_ = std::move(talk.kept);
    json_ = {{"context", context_},
             {"num_tokens", talk.num_tokens},
             {"form", NameOf(kept_.text.form)},
             {"messages", Json::array()}};
    const Result<ChatMessages> recorded = ConversationOf(*service_, tenant, context_);
    if (recorded.ok()) {
      json_["messages"] = JsonOfMessages(*recorded);
    } else {
      llama::ReplyForm form = FormOf(*service_, talk.tools);
      AddWrittenCalls(*service_->engine, form, &kept_);
      replies_.emplace(service_->engine, std::move(form), !talk.tools.empty());
    }
    return Status::Ok();
  }

  void Send() { AnswerCall(service_, call_, Result<Json>(std::move(json_))); }

  void GoOn() {
    const std::vector<TextMessage>& messages = kept_.text.messages;
    for (size_t i = 0; i < kMessagesAtOnce && num_read_ < messages.size(); ++i, ++num_read_) {
      const Status status = Add(messages[num_read_]);
      if (!status.ok()) return AnswerCall(service_, call_, ErrorResponse(status));
    }
    if (num_read_ == messages.size()) return Send();
    service_->run_later(call_, [self = shared_from_this()] { self->GoOn(); });
  }

  Status Add(const TextMessage& message) {
    ATTNDB_RETURN_IF_ERROR(CheckAwaited(*service_, call_));
    const auto [begin, end] = message.tokens;
    const auto tokens = std::span(kept_.tokens).subspan(begin, end - begin);
    Json& list = json_["messages"];
    if (message.role == TextRole::kAssistant) {
      ATTNDB_ASSIGN_OR_RETURN(Json reply, replies_->Read(tokens));
      list.push_back(std::move(reply));
    } else {
      ATTNDB_ASSIGN_OR_RETURN(const std::string text, service_->engine->Detokenize(tokens));
      list.push_back({{"role", NameOf(message.role)}, {"content", text}});
    }
    return Status::Ok();
  }

  Service* const service_;
  const Call call_;
  const std::string context_;
  KeptText kept_;
  std::optional<StoredReplies> replies_;
  size_t num_read_ = 0;
  Json json_;
};

}  // namespace

void AnswerStoredMessages(Service* service, Call call) {
  service->run_later(call, [service, call] {
    const Result<Json> body = ParseJson(call.request->body);
    if (!body.ok()) return AnswerCall(service, call, ErrorResponse(body.status()));
    const Result<StoredTextRequest> asked = ParseStoredText(*body);
    if (!asked.ok()) return AnswerCall(service, call, ErrorResponse(asked.status()));
    const std::string context = asked->context;
    const auto answer = std::make_shared<MessagesAnswer>(service, WithoutRequest(call), context);
    RunWhenStored(service, call, context, [answer] { answer->Begin(); });
  });
}

}  // namespace attndb::server
