#include "server/routes/text_call.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/context_name.h"
#include "attndb/units.h"
#include "engines/llama/window.h"
#include "server/batch/turn_id.h"
#include "server/batch/turn_title.h"
#include "server/chat/reply_reader.h"
#include "server/openai/error.h"
#include "server/openai/token_bias.h"
#include "server/routes/counted_answer.h"
#include "server/routes/find.h"
#include "server/routes/source_session.h"
#include "server/routes/store_place.h"
#include "server/routes/stored_calls.h"

namespace attndb::server {
namespace {

class TextCall {
 public:
  TextCall(Service* service, Call call, TextInterface interface)
      : service_(service), call_(std::move(call)), interface_(std::move(interface)) {}

  // Everything up to the scheduler.
  Status Run(const Json& body) {
    ATTNDB_ASSIGN_OR_RETURN(asked_, interface_.parse(body));
    const std::string header(call_.request->Header("x-attndb-context"));
    ATTNDB_RETURN_IF_ERROR(TakeContextHeader(header, &asked_));
    ATTNDB_RETURN_IF_ERROR(CheckModel(body));
    ATTNDB_RETURN_IF_ERROR(CheckChoices());
    PrepareChat(*service_, &asked_);
    service_->metrics->num_ignored_lines += asked_.num_ignored_lines;
    ATTNDB_RETURN_IF_ERROR(CheckTextSources(asked_.sources, asked_.context, asked_.store_as));
    if (!asked_.plan.empty() && !service_->options.allow_plans) {
      return Status::InvalidArgument("'plan': this server's plan is fixed");
    }
    if (asked_.tpot_ms > 0 && !service_->options.allow_plans) {
      return Status::InvalidArgument("'tpot_ms': this server's plan is fixed");
    }
    return asked_.sources.empty() ? GoOn() : AskSources();
  }

 private:
  // From the checked request to the scheduler.
  Status GoOn() {
    const std::string& tenant = call_.rules.tenant;
    ATTNDB_RETURN_IF_ERROR(CheckSchema());
    std::optional<SourceSession> own;  // Nobody else's session will do.
    if (!asked_.sources.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(own, OpenOwn(tenant));
      asked_.truncate = true;  // All of it fits.
    }
    Prompt prompt;
    if (own) {
      prompt = std::move(own->prompt);
    } else {
      ATTNDB_ASSIGN_OR_RETURN(prompt, MakePrompt(tenant));
    }
    form_ = std::move(prompt.form);
    TurnRequest turn;
    ATTNDB_ASSIGN_OR_RETURN(turn.generate, GenerateOptionsFor(prompt));
    ATTNDB_RETURN_IF_ERROR(Constrain(&turn.generate));
    turn.tells_chances =
        asked_.logprobs != LogprobForm::kNone || (asked_.tells_tokens && asked_.stream);
    turn.tells_tokens = asked_.tells_tokens;
    turn.ends_with_window = asked_.fills_window || !asked_.truncate || own.has_value();
    turn.is_kept = !own.has_value();
    turn.id = NewTurnId(prompt.digest);
    if (prompt.parted) turn.parted = PlaceText(*prompt.parted);
    turn.cut_id = turn.id;  // A name is of whole turns.
    if (asked_.min_ttl_seconds > 0) turn.store = Life();
    if (!asked_.store_as.empty()) {
      ATTNDB_RETURN_IF_ERROR(StoreUnderName(tenant, &turn));
      turn.id = asked_.store_as;
      turn.under_way = service_->conversations->NoteUnderWay(tenant, turn.id);
      turn.runs_last = true;
    }
    turn.tenant = tenant;
    turn.received_seconds = call_.received_seconds;
    turn.tpot_seconds = TpotSeconds();
    turn.plan = PlanOf(turn.tpot_seconds);
    Result<Continuation> start = StartOf(turn, prompt, std::move(own));
    if (!start.ok() && !prompt.left_out.empty()) {
      // Not all of the turn is there, or the model's sessions can't lose tokens.
      asked_.edits = Edits::kExact;
      return GoOn();
    }
    ATTNDB_RETURN_IF_ERROR(start.status());
    LimitToMemory(start->rest.size(), &turn.generate);
    // Here, and once for all choices: the scheduler's thread has no time for it.
    turn.generate.prepared = service_->engine->PrepareReply(turn.generate);
    turn.prompt = std::move(prompt.tokens);
    turn.left_out = std::move(prompt.left_out);
    turn.text = std::move(prompt.text);
    turn.title = Title(tenant);
    return Schedule(std::move(turn), *std::move(start));
  }

  // Waits for contexts that are being stored, and looks for those that are to be found; then goes
  // on, on another thread.
  Status AskSources() {
    std::vector<std::string> names = asked_.sources.contexts;
    if (!asked_.context.empty()) names.push_back(asked_.context);
    // Whoever waits holds no body.
    auto later = std::make_shared<TextCall>(service_, WithoutRequest(call_), interface_);
    later->asked_ = std::move(asked_);
    RunWhenAllStored(service_, later->call_, names, [later] {
      FindSources(later->service_, later->call_, &later->asked_, [later](Status status) {
        if (status.ok()) status = later->GoOn();
        if (!status.ok()) AnswerCall(later->service_, later->call_, ErrorResponse(status));
      });
    });
    return Status::Ok();
  }
  Result<Continuation> StartOf(const TurnRequest& turn, const Prompt& prompt,
                               std::optional<SourceSession> own) const {
    if (!own) {
      return service_->conversations->Start(turn.tenant, prompt.tokens, turn.plan,
                                            turn.generate.prefill.window, prompt.left_out);
    }
    return Continuation{std::move(own->session), std::move(own->rest), {}, /*is_unread=*/true};
  }
  // All turns of a conversation have one title, although a request may have its last message alone.
  std::string Title(const std::string& tenant) const {
    if (!asked_.context.empty()) {
      std::string title = service_->conversations->TitleOf(tenant, asked_.context);
      if (!title.empty()) return title;
    }
    return TitleOfTurn(asked_.messages, asked_.prompt);
  }
  Result<SourceSession> OpenOwn(const std::string& tenant) const {
    const llama::TokenizeLimits limits = LimitsFor(*service_, call_, WindowTokens(*service_));
    return OpenSourceSession(*service_, tenant, asked_, PlanOf(TpotSeconds()), limits);
  }

  Result<Prompt> MakePrompt(const std::string& tenant) const {
    const Prompts& prompts = *service_->prompts;
    const uint64_t window = WindowTokens(*service_);
    ATTNDB_RETURN_IF_ERROR(CheckLastMessage(window));
    // The oldest messages of a chat may leave: they are not counted.
    const bool may_be_longer = interface_.is_chat && asked_.truncate;
    const llama::TokenizeLimits limits = LimitsFor(*service_, call_, may_be_longer ? 0 : window);
    if (interface_.is_chat)
      return prompts.OfChat(tenant, asked_.context, asked_.messages, asked_.chat, limits,
                            asked_.edits.value_or(service_->options.edits));
    if (asked_.prompt_tokens.empty()) {
      return prompts.OfText(tenant, asked_.context, asked_.prompt, limits);
    }
    return prompts.OfTokens(tenant, asked_.context, asked_.prompt_tokens);
  }
  // Returns the time that a token of the reply may take, by the request or else its tenant; 0:
  // neither says.
  double TpotSeconds() const {
    if (!asked_.plan.empty()) return 0;
    return 1e-3 * (asked_.tpot_ms > 0 ? asked_.tpot_ms : static_cast<double>(call_.rules.tpot_ms));
  }
  // The plan to begin with.
  std::string PlanOf(double tpot_seconds) const {
    if (!asked_.plan.empty()) return asked_.plan;
    return tpot_seconds > 0 ? PlanFor(tpot_seconds) : service_->options.plan;
  }
  // A turn lives as long as the server's turns do, and no shorter than its request asks.
  StoreOptions Life() const {
    StoreOptions life = {.ttl = service_->options.conversations.ttl};
    const std::chrono::seconds least(asked_.min_ttl_seconds);
    if (life.ttl) life.ttl = std::max(*life.ttl, least);
    return life;
  }
  // A turn that has a name is stored in the place, and with the life, of the dialogue that has the
  // name when the turn ends. What can't be stored then is refused now.
  Status StoreUnderName(const std::string& tenant, TurnRequest* turn) const {
    const std::string& name = asked_.store_as;
    ATTNDB_RETURN_IF_ERROR(CheckContextName(name).WithContext("'store_as'"));
    ATTNDB_ASSIGN_OR_RETURN(DB db, service_->conversations->HandleOf(tenant));
    const auto place = std::make_shared<DialoguePlace>(service_->engine, std::move(db), Life());
    turn->fit_store = [place, name](StoreOptions* store) -> Status {
      ATTNDB_ASSIGN_OR_RETURN(*store, place->Look(name));
      return Status::Ok();
    };
    return turn->fit_store(&turn->store.emplace());
  }

  // All choices of a request reply in the same passes.
  Status CheckChoices() const {
    const size_t most = service_->scheduler->max_replies();
    if (asked_.num_choices > most) {
      return WrongValue("n", "at most " + std::to_string(most) + ", the server's --sessions",
                        Json(asked_.num_choices));
    }
    if (asked_.num_choices == 1 || asked_.store_as.empty()) return Status::Ok();
    return Status::InvalidArgument("'store_as' names one context, and 'n' asks for " +
                                   Counted(asked_.num_choices, "choice"));
  }

  // A name that is not the model's is what most clients send to a server of one model.
  Status CheckModel(const Json& body) {
    const auto model = body.find("model");
    if (model == body.end() || model->is_null() || model->is_string()) return Status::Ok();
    return Status::InvalidArgument("'model' is " + Shown(*model) + ", expected a text");
  }

  Result<llama::WindowOptions> WindowFor(const Prompt& prompt) const {
    llama::WindowOptions window;
    window.window_tokens = WindowTokens(*service_);
    window.keep_first = llama::UsualKeepFirst(prompt.num_system, window.window_tokens);
    if (window.window_tokens == 0) return window;
    ATTNDB_RETURN_IF_ERROR(window.Validate());
    return window;
  }

  Result<llama::GenerateOptions> GenerateOptionsFor(const Prompt& prompt) const {
    llama::GenerateOptions generate;
    generate.stop = asked_.stop;
    generate.ignore_end = asked_.ignore_end;
    generate.sampler = asked_.sampler;
    generate.chances = asked_.chances;
    generate.chances.ids_only = asked_.logprobs == LogprobForm::kNone;
    ATTNDB_ASSIGN_OR_RETURN(generate.sampler.logit_bias,
                            TokenBiases(*service_->engine, asked_.logit_bias));
    if (!asked_.has_seed) generate.sampler.seed = static_cast<uint32_t>(RandomBits());
    ATTNDB_ASSIGN_OR_RETURN(generate.prefill.window, WindowFor(prompt));
    generate.max_tokens = MaxTokensFor(generate.prefill.window.window_tokens);
    ATTNDB_RETURN_IF_ERROR(CheckFits(prompt, generate.prefill.window));
    return generate;
  }

  uint32_t MaxTokensFor(uint64_t window_tokens) const {
    if (asked_.max_tokens) return *asked_.max_tokens;
    if (!asked_.fills_window) return service_->options.max_tokens;
    constexpr uint64_t kMost = INT32_MAX;
    return static_cast<uint32_t>(window_tokens > 0 ? std::min(window_tokens, kMost) : kMost);
  }

  // A request that names no max_tokens, or names a limit, is not refused for it: its reply is as
  // long as memory can be promised for beside the `num_rest` tokens of its prompt. Choices share
  // this memory.
  void LimitToMemory(uint64_t num_rest, llama::GenerateOptions* generate) const {
    const uint64_t window = generate->prefill.window.window_tokens;
    const uint64_t promisable = PromisableTokens(*service_);
    const bool is_exact = asked_.max_tokens && !asked_.lowers_max_tokens;
    const uint64_t num_choices = asked_.num_choices;
    if (is_exact || (window > 0 && window * num_choices <= promisable)) return;
    const uint64_t num_forked = (num_choices - 1) * ForkTokens(num_rest);
    const uint64_t num_taken = std::min(num_rest + num_forked, promisable);
    const uint64_t most = std::max<uint64_t>((promisable - num_taken) / num_choices, 1);
    generate->max_tokens = static_cast<uint32_t>(std::min<uint64_t>(generate->max_tokens, most));
  }

  // Messages before the last one, which would be cut in the middle. A reply may be longer than the
  // window: its oldest tokens left while it was made, and do so again.
  Status CheckMessages(uint64_t window_tokens) const {
    for (size_t i = 0; i + 1 < asked_.messages.size(); ++i) {
      const std::string& content = asked_.messages[i].content;
      // A token has a byte or more.
      if (asked_.messages[i].role == kAssistantRole || content.size() <= window_tokens) continue;
      ATTNDB_ASSIGN_OR_RETURN(const bool is_longer, IsLonger(content, window_tokens));
      if (!is_longer) continue;
      return Status::InvalidArgument("messages[" + std::to_string(i) +
                                     "] has more tokens than the model's window of " +
                                     Counted(window_tokens, "token") + " takes");
    }
    return Status::Ok();
  }

  // A long last message that can't fit the window is refused before the prompt is made. CheckFits
  // counts the others.
  Status CheckLastMessage(uint64_t window_tokens) const {
    if (window_tokens == 0 || asked_.messages.empty()) return Status::Ok();
    const std::string& content = asked_.messages.back().content;
    if (content.size() <= llama::TokenizeLimits().piece_bytes) return Status::Ok();
    ATTNDB_ASSIGN_OR_RETURN(const bool is_longer, IsLonger(content, window_tokens));
    if (!is_longer) return Status::Ok();
    return Status::InvalidArgument("the last message has more tokens than the model's window of " +
                                   Counted(window_tokens, "token") + " takes");
  }

  // Whether the text has more tokens.
  Result<bool> IsLonger(const std::string& text, uint64_t num_tokens) const {
    const llama::TokenizeLimits limits = LimitsFor(*service_, call_, num_tokens);
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                            service_->engine->Tokenize(text, false, false, limits));
    return tokens.size() > num_tokens;
  }

  Status CheckFits(const Prompt& prompt, const llama::WindowOptions& window) const {
    if (window.window_tokens == 0) return Status::Ok();
    ATTNDB_RETURN_IF_ERROR(CheckMessages(window.window_tokens));
    const std::string size = Counted(window.window_tokens, "token");
    // The tokens in front stay. They are the message's own if nothing stands before it.
    const uint64_t num_prompt = prompt.tokens.size() - llama::NumTokensOf(prompt.left_out);
    const uint64_t num_in_front =
        std::min<uint64_t>(window.keep_first, num_prompt - std::min(num_prompt, prompt.num_last));
    if (prompt.num_last + num_in_front > window.window_tokens) {
      return Status::InvalidArgument(
          "the last message has " + CountedTokens(call_, prompt.num_last) +
          (num_in_front > 0 ? " and the first " + FormatCount(num_in_front) + " stay" : "") +
          ", more than the model's window of " + size + " takes");
    }
    if (asked_.truncate) return Status::Ok();
    const uint64_t needed = num_prompt + asked_.max_tokens.value_or(1);
    if (needed <= window.window_tokens) return Status::Ok();
    return Status::InvalidArgument("the prompt has " + CountedTokens(call_, num_prompt) +
                                   ", and with its answer does not fit the window of " + size +
                                   "; \"overflow\": \"truncate\" lets its oldest go");
  }

  // A schema that can't be a grammar is refused by its own name, before the prompt is made.
  Status CheckSchema() {
    const std::string& schema = asked_.chat.json_schema;
    if (schema.empty()) return Status::Ok();
    Result<std::string> grammar = service_->engine->GrammarOfSchema(schema);
    if (grammar.status().code() == StatusCode::kResourceExhausted) {
      return Status::InvalidArgument("the reply's schema: " + grammar.status().message());
    }
    ATTNDB_ASSIGN_OR_RETURN(schema_grammar_, std::move(grammar));
    return Status::Ok();
  }

  // A request without a budget has the server's.
  llama::ThinkingOptions ThinkingOf() const {
    llama::ThinkingOptions thinking = {.start = form_.thinking_start,
                                       .ends = form_.thinking_ends,
                                       .before = form_.generation_prompt,
                                       .max_tokens = std::nullopt,
                                       .message = {}};
    const ServerOptions& options = service_->options;
    const int64_t budget =
        asked_.reasoning_budget >= 0 ? asked_.reasoning_budget : options.reasoning_budget;
    if (budget >= 0) thinking.max_tokens = static_cast<uint32_t>(budget);
    thinking.message = asked_.reasoning_message.value_or(options.reasoning_message);
    return thinking;
  }

  Status Constrain(llama::GenerateOptions* generate) const {
    generate->thinking = ThinkingOf();
    generate->shown_tokens = form_.shown_tokens;
    generate->stop.insert(generate->stop.end(), form_.stop.begin(), form_.stop.end());
    if (!asked_.grammar.empty()) {
      generate->constraint = {.grammar = asked_.grammar};
    } else if (!form_.grammar.empty()) {
      generate->constraint = {.grammar = form_.grammar,
                              .is_lazy = form_.is_lazy,
                              .triggers = form_.triggers,
                              .before = form_.generation_prompt};
    } else if (!schema_grammar_.empty()) {
      generate->constraint = {.grammar = schema_grammar_};
    } else if (asked_.chat.tool_choice == llama::ToolChoice::kRequired) {
      return Status::Unsupported("'tool_choice': the model's template has no form for tools");
    }
    return CheckGrammar(*generate);
  }

  // A grammar that can't be compiled is refused before the prompt is run.
  Status CheckGrammar(const llama::GenerateOptions& generate) const {
    if (!generate.constraint) return Status::Ok();
    const Status status = service_->engine->CheckGrammar(*generate.constraint);
    if (status.code() != StatusCode::kResourceExhausted) return status;
    return Status::InvalidArgument(status.message());  // The grammar is to blame, not the server.
  }

  ReplyReading ReadingFor(const Call& call, const std::string& context) const {
    if (form_.parser.empty()) return {};
    Call small = call;
    small.body_bytes = 0;  // A large body's own thread is not for replies.
    ReplyReading reading = {
        .read = [engine = service_->engine, form = form_](
                    std::string_view text,
                    bool is_partial) { return engine->ReadReplyText(form, text, is_partial); },
        .run_later =
            [service = service_, small = std::move(small)](std::function<void()> work) {
              service->run_later(small, std::move(work));
            },
        .count = [engine = service_->engine](
                     const std::string& text) { return NumTokens(*engine, text); },
        .streams = asked_.stream,
        .continues = asked_.chat.continues_last};
    if (interface_.call_id != nullptr) {
      reading.new_call_id = [make = interface_.call_id, context, count = size_t{0}]() mutable {
        return make(context, count++);
      };
    }
    return reading;
  }

  Status Schedule(TurnRequest request, Continuation start) {
    const Call kept = WithoutRequest(call_);
    const std::vector<std::shared_ptr<ReplyWriter>> writers = Writers(kept);
    const auto end = std::make_shared<NotedEnd>(service_, kept, asked_, writers.size());
    if (!interface_.note && !asked_.chat.tools.empty() && request.is_kept) {
      ATTNDB_RETURN_IF_ERROR(AddNote(start.session, &request));
    }
    if ((interface_.note || request.note) && !request.store) request.store = Life();
    const auto shared = std::make_shared<const TurnRequest>(std::move(request));
    std::vector<std::shared_ptr<Turn>> choices;  // But the first.
    for (size_t i = 1; i < writers.size(); ++i) {
      ATTNDB_ASSIGN_OR_RETURN(Session session, start.session.Fork());
      choices.push_back(MakeTurn(shared, i, std::move(session), {},
                                 std::make_shared<NotedAnswer>(end, writers[i])));
    }
    const std::shared_ptr<Turn> turn =
        MakeTurn(shared, 0, std::move(start.session), std::move(start.rest),
                 std::make_shared<NotedAnswer>(end, writers[0]));
    turn->AddChoices(std::move(choices));
    if (interface_.is_chat) service_->running->Add(turn, asked_.controls_reasoning);
    return ScheduleTurn(service_, kept, turn, start.is_unread);
  }

  // The turn's calls are read with the tools. Choices share the text of the note.
  Status AddNote(const Session& session, TurnRequest* request) const {
    ATTNDB_ASSIGN_OR_RETURN(const DB db, service_->conversations->HandleOf(request->tenant));
    auto note = std::make_shared<const std::string>(NoteToStore(db, session, asked_.chat.tools));
    if (!note->empty()) request->note = [note](const TurnEnd&) { return *note; };
    return Status::Ok();
  }

  std::vector<std::shared_ptr<ReplyWriter>> Writers(const Call& call) const {
    if (interface_.writers != nullptr) return interface_.writers(service_, call, asked_);
    return {interface_.writer(service_, call, asked_)};
  }

  // Returns what choice `index` has of its own: it draws by a seed of its own, and is a turn of its
  // own.
  static TurnOwn OwnOf(const TurnRequest& request, size_t index) {
    TurnOwn own = {.id = request.id,
                   .cut_id = request.cut_id,
                   .seed = request.generate.sampler.seed + static_cast<uint32_t>(index),
                   .note = request.note};
    if (index > 0) own.id = own.cut_id = NewTurnId(DigestIn(request.id).value_or(""));
    return own;
  }

  std::shared_ptr<Turn> MakeTurn(const std::shared_ptr<const TurnRequest>& request, size_t index,
                                 Session session, std::vector<TokenId> rest,
                                 std::shared_ptr<NotedAnswer> answer) const {
    TurnOwn own = OwnOf(*request, index);
    ReplyReading reading = ReadingFor(WithoutRequest(call_), own.id);
    const auto weak = std::make_shared<std::weak_ptr<Turn>>();
    reading.cancel = [weak] {
      if (const auto turn = weak->lock()) turn->Cancel();
    };
    std::shared_ptr<KeptReply> reply;
    if (interface_.note != nullptr) {
      reply = std::make_shared<KeptReply>();
      own.note = [reply, note = interface_.note](const TurnEnd& end) {
        return note(reply->start, end, reply->text);
      };
    }
    auto listener = std::make_shared<CountedAnswer>(
        service_->metrics, std::move(answer), std::move(reading), std::move(reply), index == 0);
    auto turn = std::make_shared<Turn>(request, std::move(own), std::move(session), std::move(rest),
                                       std::move(listener));
    *weak = turn;
    return turn;
  }

  Service* const service_;
  const Call call_;
  const TextInterface interface_;
  TextRequest asked_;
  llama::ReplyForm form_;
  std::string schema_grammar_;  // GBNF of the schema that was asked for; empty: none was.
};

void AddDefaults(const std::map<std::string, std::string>& variables, llama::ChatOptions* chat) {
  for (const auto& [name, value] : variables) {
    if (name == "enable_thinking") {
      if (!chat->enable_thinking) chat->enable_thinking = value == "true";
    } else if (name != "reasoning_effort" || chat->enable_thinking.value_or(true)) {
      chat->variables.emplace(name, value);
    }
  }
}

}  // namespace

void PrepareChat(const Service& service, TextRequest* asked) {
  std::map<std::string, std::string> variables = service.options.chat_variables;
  // A request that has tokens to think for is to think.
  if (service.options.reasoning_budget == 0 && asked->reasoning_budget > 0) {
    variables.erase("enable_thinking");
  }
  AddDefaults(variables, &asked->chat);
  asked->num_ignored_lines = service.line_filter.Apply(asked->messages);
}

uint64_t NumTokens(const llama::LlamaEngine& engine, const std::string& text) {
  const auto tokens = engine.Tokenize(text, /*add_special=*/false, /*parse_special=*/false);
  return tokens.ok() ? tokens->size() : 0;
}

void AnswerText(Service* service, Call call, TextInterface interface) {
  service->run_later(call, [service, call, interface = std::move(interface)] {
    Result<Json> parsed = ParseJson(call.request->body, kWideFields);
    if (!parsed.ok()) return AnswerCall(service, call, ErrorResponse(parsed.status()));
    const auto body = std::make_shared<const Json>(*std::move(parsed));
    const std::string before = interface.before != nullptr ? interface.before(*body) : "";
    RunWhenStored(service, call, before, [service, call, interface, body] {
      const Status status = TextCall(service, call, interface).Run(*body);
      if (!status.ok()) AnswerCall(service, call, ErrorResponse(status));
    });
  });
}

}  // namespace attndb::server
