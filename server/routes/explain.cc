#include "server/routes/explain.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/units.h"
#include "server/explain/token_weights.h"
#include "server/json.h"
#include "server/openai/error.h"
#include "server/openai/token_pieces.h"
#include "server/responses/response_object.h"
#include "server/responses/response_request.h"
#include "server/routes/explain_request.h"
#include "server/routes/explain_stored.h"
#include "server/routes/responses.h"
#include "server/routes/text_call.h"

namespace attndb::server {
namespace {

using Rows = std::vector<std::vector<float>>;  // q of the newest token, by layer.

// What is explained: the tokens up to the one whose query is looked at, and the one after it.
struct Subject {
  std::vector<TokenId> tokens;
  std::vector<TokenId> next;  // One, or none if it was not chosen yet.
  uint64_t num_reply = 0;     // Tokens of the reply.
  std::optional<Parted> parted;
};

Status TooLong(const Call& call, uint64_t num_tokens, uint64_t most) {
  return Status::InvalidArgument(CountedTokens(call, num_tokens) + ", expected at most " +
                                 FormatCount(most));
}

Result<Subject> SubjectOf(const Service& service, const Call& call, const ExplainRequest& request) {
  const std::string& tenant = call.rules.tenant;
  const uint64_t window = WindowTokens(service);
  const uint64_t most = window > 0 ? std::min(window, kMaxWeighedTokens) : kMaxWeighedTokens;
  const llama::TokenizeLimits limits = LimitsFor(service, call, most);
  const auto& messages = request.text.messages;
  const bool is_given = messages.back().role == kAssistantRole;
  const Prompts& prompts = *service.prompts;
  ATTNDB_ASSIGN_OR_RETURN(
      Prompt prompt,
      is_given ? prompts.OfReply(tenant, request.text.context, messages, request.text.chat, limits)
               : prompts.OfChat(tenant, request.text.context, messages, request.text.chat, limits));
  Subject subject;
  subject.parted = std::move(prompt.parted);
  subject.tokens = std::move(prompt.tokens);
  subject.num_reply = is_given ? prompt.num_last : 0;
  // A longer reply may have been counted in part.
  if (subject.num_reply > most) return TooLong(call, subject.num_reply, most);
  const uint64_t num_known = is_given ? subject.num_reply : 1;
  if (request.token >= num_known) {
    return Status::InvalidArgument("'token' is " + std::to_string(request.token) +
                                   ", expected one of the reply's " + std::to_string(num_known));
  }
  if (is_given) {
    subject.tokens.resize(subject.tokens.size() - subject.num_reply + request.token + 1);
    subject.next = {subject.tokens.back()};
    subject.tokens.pop_back();
  }
  if (subject.tokens.size() > most) return TooLong(call, subject.tokens.size(), most);
  return subject;
}

// A token as people read it: control tokens by their names.
std::string TextOf(const llama::LlamaEngine& engine, TokenId token) {
  Result<std::string> text = PieceOf(engine, token);
  return text.ok() ? *std::move(text) : std::string();
}

Json JsonOf(const HeadWeights& head) {
  constexpr double kDigits = 1e6;
  Json weights = Json::array();
  for (const float weight : head.weights) {
    weights.push_back(std::round(double{weight} * kDigits) / kDigits);
  }
  const bool searched = head.num_critical.has_value();
  return {{"tokens", head.tokens},
          {"weights", std::move(weights)},
          {"num_critical", searched ? Json(*head.num_critical) : Json()},
          {"critical", searched ? Json(head.critical) : Json()}};
}

// The texts of both are the tenant's own.
Json JsonOf(const std::optional<Parted>& parted) {
  if (!parted) return Json();
  return {{"message", parted->message},
          {"character", parted->character},
          {"asked", parted->asked},
          {"stored", parted->stored}};
}

Json ExplainJson(const Session& session) { return ReadOwnJson(session.Explain().ToJson()); }

// Runs the last token again, once the others are read, and keeps its queries; the rest is work for
// another thread than the scheduler's.
class Explained final : public TurnListener {
 public:
  Explained(Service* service, Call call, Subject subject, const ReusePrice& reuse,
            uint64_t num_listed)
      : service_(service),
        call_(std::move(call)),
        subject_(std::move(subject)),
        reuse_(reuse),
        num_listed_(num_listed) {}

  void OnStart(const TurnStart& start) override { start_ = start; }
  void OnText(std::string_view) override {}
  void OnEnd(const TurnEnd&) override {}
  void OnError(const Status& status) override {
    AnswerCall(service_, call_, ErrorResponse(status));
  }
  void OnRead(llama::LlamaEngine* engine, Session session) override {
    auto rows = std::make_shared<Rows>();
    const Status status = RunLast(engine, &session, rows.get());
    service_->admission->Count(call_.rules.tenant, 1, MonotonicSeconds());
    if (!status.ok()) return OnError(status);
    auto read = std::make_shared<Session>(std::move(session));
    service_->run_later(
        call_, [service = service_, call = call_, subject = subject_, rows, read, start = start_,
                reuse = reuse_, num_listed = num_listed_]() mutable {
          Result<Json> json = Weigh(*service, start, subject, *rows, num_listed, read.get());
          if (json.ok()) (*json)["reuse"] = JsonOf(reuse);
          AnswerCall(service, call, json);
        });
  }

 private:
  Status RunLast(llama::LlamaEngine* engine, Session* session, Rows* rows) const {
    ATTNDB_RETURN_IF_ERROR(session->Crop(session->num_tokens() - 1));
    rows->resize(session->spec().num_layers());
    std::mutex mutex;  // The engine's threads give the queries of each layer, one of them.
    llama::PrefillOptions prefill;
    prefill.on_queries = [rows, &mutex](LayerId layer, uint64_t, const TensorView& q) {
      const std::lock_guard<std::mutex> lock(mutex);
      const auto* const data = static_cast<const float*>(q.data);
      for (int64_t head = 0; head < q.heads(); ++head) {
        for (int64_t i = 0; i < q.dim(); ++i) {
          (*rows)[layer].push_back(data[head * q.strides[1] + i * q.strides[2]]);
        }
      }
      return Status::Ok();
    };
    return engine->Prefill(*session, {&subject_.tokens.back(), 1}, prefill);
  }

  static Result<Json> Weigh(const Service& service, const TurnStart& start, const Subject& subject,
                            const Rows& rows, uint64_t num_listed, Session* session) {
    const llama::LlamaEngine& engine = *service.engine;
    Json texts = Json::array();
    for (const TokenId token : subject.tokens) texts.push_back(TextOf(engine, token));
    Json json = {{"num_tokens", subject.tokens.size()},
                 {"cached_tokens", start.num_cached_tokens},
                 {"reply_tokens", subject.num_reply},
                 {"next", subject.next.empty() ? Json() : Json(TextOf(engine, subject.next[0]))},
                 {"tokens", std::move(texts)},
                 {"parted", JsonOf(subject.parted)},
                 {"explain", ExplainJson(*session)}};  // Before a search adds to it.
    Json layers = Json::array();
    for (LayerId layer = 0; layer < rows.size(); ++layer) {
      Json heads = Json::array();
      // A layer without attention has no queries.
      if (!rows[layer].empty()) {
        ATTNDB_ASSIGN_OR_RETURN(const auto weights,
                                WeighTokens(layer, rows[layer], num_listed, session));
        for (const HeadWeights& head : weights) heads.push_back(JsonOf(head));
      }
      layers.push_back({{"layer", layer}, {"heads", std::move(heads)}});
    }
    json["layers"] = std::move(layers);
    return json;
  }

  Service* const service_;
  Call call_;
  const Subject subject_;
  const ReusePrice reuse_;
  const uint64_t num_listed_;
  TurnStart start_;
};

Status Schedule(Service* service, const Call& call, const Json& body) {
  const ConversationBefore before = [&](const std::string& id) {
    return ConversationOfResponse(*service, call.rules.tenant, id);
  };
  ATTNDB_ASSIGN_OR_RETURN(ExplainRequest request, ParseExplain(body, before));
  PrepareChat(*service, &request.text);
  const std::string& tenant = call.rules.tenant;
  ATTNDB_ASSIGN_OR_RETURN(Subject subject, SubjectOf(*service, call, request));
  const std::string& plan = request.text.plan.empty() ? service->options.plan : request.text.plan;
  ATTNDB_ASSIGN_OR_RETURN(Continuation start,
                          service->conversations->Start(tenant, subject.tokens, plan));
  TurnRequest turn;
  turn.tenant = tenant;
  turn.prompt = subject.tokens;
  turn.replies = false;
  turn.plan = plan;  // The token that is looked at follows it.
  turn.received_seconds = call.received_seconds;
  auto listener = std::make_shared<Explained>(service, call, std::move(subject), start.reuse,
                                              request.num_listed);
  return ScheduleTurn(service, call,
                      std::make_shared<Turn>(std::move(turn), std::move(start.session),
                                             std::move(start.rest), std::move(listener)),
                      start.is_unread);
}

// Whether the body is one of Messages or of Responses, whose fields have other meanings.
bool IsOfAnotherInterface(const Json& body) {
  const Json* const interface = FindMember(body, "interface");
  return interface != nullptr && (*interface == "messages" || *interface == "responses");
}

}  // namespace

void AnswerExplain(Service* service, Call call) {
  service->run_later(call, [service, call] {
    const auto refuse = [&](const Status& status) {
      AnswerCall(service, call, ErrorResponse(status));
    };
    const Result<Json> body = ParseJson(call.request->body, kWideFields);
    if (!body.ok()) return refuse(body.status());
    if (FindMember(*body, "plan") != nullptr && !service->options.allow_plans) {
      return refuse(Status::InvalidArgument("'plan': this server's plan is fixed"));
    }
    const bool is_text =
        FindMember(*body, "text") != nullptr || FindMember(*body, "prompt_of") != nullptr;
    const Json* const context = FindMember(*body, "context");
    const bool is_chat = FindMember(*body, "messages") != nullptr ||
                         FindMember(*body, "input") != nullptr || IsOfAnotherInterface(*body);
    if (!is_chat && (is_text || context != nullptr)) {
      const bool has_name = context != nullptr && context->is_string();
      const std::string name = has_name ? context->get<std::string>() : std::string();
      const Call kept = WithoutRequest(call);
      return RunWhenStored(service, kept, name, [service, kept, is_text, body = *body] {
        AnswerCall(
            service, kept,
            is_text ? ExplainText(*service, kept, body) : ExplainContext(*service, kept, body));
      });
    }
    // A response that was just answered is not stored yet.
    const std::string previous = ContextOfResponse(PreviousIdIn(*body)).value_or("");
    const Call kept = WithoutRequest(call);
    RunWhenStored(service, kept, previous, [service, kept, body = *body] {
      const Status status = Schedule(service, kept, body);
      if (!status.ok()) AnswerCall(service, kept, ErrorResponse(status));
    });
  });
}

}  // namespace attndb::server
