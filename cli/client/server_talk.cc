#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cli/client/server_answer.h"
#include "cli/client/server_client.h"
#include "cli/client/server_commands.h"
#include "cli/client/server_contexts.h"
#include "cli/client/server_find.h"
#include "cli/common/context_text.h"
#include "cli/common/interrupt.h"
#include "cli/common/talk.h"
#include "cli/common/units.h"
#include "server/json.h"

namespace attndb::cli {
namespace {

constexpr std::array<std::string_view, 13> kFlags = {
    "question", "--context", "--name", "--plan", "--max-tokens", "--temp",    "--top-k",
    "--top-p",  "--min-p",   "--seed", "--find", "--tokens",     "--overflow"};
constexpr std::chrono::milliseconds kLook{20};  // Between looks whether a turn is durable.

Json RequestFor(const Json& fields, const std::string& plan,
                const std::vector<std::string>& contexts, const std::string& question) {
  Json body = fields;
  body["plan"] = plan;
  if (contexts.size() == 1) {
    body["context"] = contexts.front();
  } else if (!contexts.empty()) {
    body["contexts"] = contexts;
  }
  body["messages"] = Json::array({{{"role", "user"}, {"content", question}}});
  return body;
}

void NoteAnswer(Environment* env, const ServerAnswer& answer) {
  if (answer.num_dropped > 0) {
    env->Note("the conversation has outgrown its window: " + FormatCount(answer.num_dropped) +
              " of its oldest tokens are no longer attended to");
  }
  env->Note(ToText(answer.stats));
}

// A server answers, and keeps the dialogue under its name, turn by turn.
class ServerTalker final : public Talker {
 public:
  // `client` and `contexts` are not owned and outlive this. Begin comes first.
  ServerTalker(Environment* env, const ServerClient* client, Contexts* contexts, ServerChat chat)
      : env_(env), client_(client), contexts_(contexts), chat_(std::move(chat)) {}

  // Goes on with the dialogue `name` if it is there, else begins it with `context`.
  Status Begin(const std::string& context, const std::string& name) {
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<ContextInfo> earlier,
                            IfThere(contexts_->Describe(name)));
    const Result<ContextInfo> subject = contexts_->Describe(context.empty() ? name : context);
    if (earlier && subject.status().code() == StatusCode::kNotFound) {
      return env_->WithAdvice(subject.status(), GoneContextAdvice(name));
    }
    ATTNDB_RETURN_IF_ERROR(subject.status());
    if (earlier) env_->Note(GoesOnText(name, context, BeginsWith(name, *subject)));
    chat_.name = name;
    base_ = earlier ? name : context;
    return Status();
  }

  std::string name() const override { return chat_.name; }
  std::string plan() const override { return chat_.plan; }

  Result<Json> Answer(const std::string& question) override {
    ATTNDB_ASSIGN_OR_RETURN(const ServerAnswer answer, Turn(question));
    NoteAnswer(env_, answer);
    Json turn = {{"answer", answer.text}};
    turn.update(ToJson(answer));
    return turn;
  }

  Result<std::string> About() override {
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, contexts_->Describe(base_));
    return "'" + base_ + "', " + Counted(info.num_tokens, "token") +
           " with what was said; turns are stored as '" + chat_.name + "'";
  }

  Status SwitchTo(const std::string& context) override {
    return Begin(context, ChatNameOf(context));
  }

  Status SetPlan(const std::string& plan) override {
    // Explaining the plan finds out whether it is one.
    const Json body = {{"context", base_}, {"plan", plan}};
    ATTNDB_RETURN_IF_ERROR(client_->Ask("POST", std::string(kExplainPath), body).status());
    chat_.plan = plan;
    return Status();
  }

 private:
  // The turn is durable when it returns, unless it was interrupted.
  Result<ServerAnswer> Turn(const std::string& question) {
    Json body = RequestFor(chat_.fields, chat_.plan, {base_}, question);
    body["store_as"] = chat_.name;
    ATTNDB_ASSIGN_OR_RETURN(ServerAnswer answer, StreamAnswer(env_, *client_, std::move(body)));
    if (answer.interrupted) return answer;
    ATTNDB_RETURN_IF_ERROR(WaitUntilDurable());
    base_ = chat_.name;
    return answer;
  }

  // Whether a context begins with all that another one holds. True where the server does not tell:
  // it is older, or has the two of different models.
  bool BeginsWith(const std::string& context, const ContextInfo& beginning) const {
    const Json body = {{"prompt_of", context}, {"context", NameOf(beginning)}};
    const Result<Json> json = client_->Ask("POST", std::string(kExplainPath), body);
    if (!json.ok() || !json->is_object()) return true;
    const Json* const prefix = server::FindMember(*json, "prefix");
    if (prefix == nullptr || !prefix->is_object()) return true;
    const Json* const num_shared = server::FindMember(*prefix, "num_reused");
    const Json* const num_tokens = server::FindMember(*prefix, "num_prompt_tokens");
    for (const Json* const number : {num_shared, num_tokens}) {
      if (number == nullptr || !number->is_number_unsigned()) return true;
    }
    // The last token of a prompt is never reused.
    const auto num_most = std::max<uint64_t>(num_tokens->get<uint64_t>(), 1) - 1;
    return num_shared->get<uint64_t>() >= std::min(beginning.num_tokens, num_most);
  }

  Status WaitUntilDurable() const {
    while (true) {
      ATTNDB_ASSIGN_OR_RETURN(const Json json, client_->Ask("GET", ContextPath(chat_.name)));
      const Json* const durable = json.is_object() ? server::FindMember(json, "durable") : nullptr;
      if (durable == nullptr) return Status::IoError("the server's answer is no context");
      if (*durable == true) return Status::Ok();
      const Json* const error = server::FindMember(json, "error");
      if (error != nullptr) {
        return Status::FailedPrecondition("the turn could not be stored: " +
                                          Printable(Dump(*error)));
      }
      std::this_thread::sleep_for(kLook);
    }
  }

  Environment* const env_;
  const ServerClient* const client_;
  Contexts* const contexts_;
  ServerChat chat_;
  std::string base_;  // The context that the next turn continues.
};

// Says which contexts were found, and returns their names. A context that has gone meanwhile has
// its id as its name.
std::vector<std::string> NoteFound(Environment* env, Contexts* contexts,
                                   const std::vector<std::string>& found) {
  std::vector<std::string> names;
  std::string listed;
  for (const std::string& context : found) {
    const Result<ContextInfo> info = contexts->Describe(context);
    names.push_back(info.ok() ? NameOf(*info) : context);
    listed += (listed.empty() ? "" : ", ") + names.back();
  }
  if (!names.empty()) env->Note("found in " + listed + ", best first");
  return names;
}

}  // namespace

Result<ExitCode> AskThroughServer(Environment* env, const ServerQuestion& question) {
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kFlags));
  ATTNDB_ASSIGN_OR_RETURN(const ServerClient client, ServerClient::Connect(env));
  ATTNDB_ASSIGN_OR_RETURN(const auto contexts, ConnectContexts(env));
  const InterruptScope interrupt;
  // Before the answer: names may go meanwhile.
  std::vector<std::string> names;
  for (const std::string& context : question.contexts) {
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, contexts->Describe(context));
    names.push_back(NameOf(info));
  }
  Json body = RequestFor(question.fields, question.plan, question.contexts, question.question);
  if (question.find > 0) body["find"] = question.find;
  const Result<ServerAnswer> answered = StreamAnswer(env, client, std::move(body));
  if (!answered.ok()) {
    return question.find > 0 ? NothingFound(env, question.contexts, answered.status())
                             : answered.status();
  }
  const ServerAnswer& answer = *answered;
  if (question.find > 0) names = NoteFound(env, contexts.get(), answer.found);
  NoteAnswer(env, answer);
  Json json = {{"context", names.empty() ? Json() : Json(names.front())},
               {"contexts", names},
               {"answer", answer.text},
               {"finish", answer.finish},
               {"plan", question.plan}};
  json.update(ToJson(answer));
  env->PrintJson(json);
  return answer.interrupted ? ExitCode::kInterrupted : ExitCode::kOk;
}

Result<ExitCode> ChatThroughServer(Environment* env, const ServerChat& chat) {
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kFlags));
  ATTNDB_ASSIGN_OR_RETURN(const ServerClient client, ServerClient::Connect(env));
  ATTNDB_ASSIGN_OR_RETURN(const auto contexts, ConnectContexts(env));
  const InterruptScope interrupt;
  ServerTalker talker(env, &client, contexts.get(), chat);
  ATTNDB_RETURN_IF_ERROR(talker.Begin(chat.context, chat.name));
  return Talk(env, &talker);
}

}  // namespace attndb::cli
