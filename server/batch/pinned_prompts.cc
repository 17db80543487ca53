#include "server/batch/pinned_prompts.h"

#include <utility>

#include "attndb/units.h"
#include "engines/llama/prompt_layout.h"
#include "server/batch/turn_id.h"

namespace attndb::server {
namespace {

constexpr const char* kNameBegin = "system-";

class EndListener final : public TurnListener {
 public:
  explicit EndListener(std::function<void(const Status&)> on_end) : on_end_(std::move(on_end)) {}

  void OnStart(const TurnStart& /*start*/) override {}
  void OnText(std::string_view /*text*/) override {}
  void OnEnd(const TurnEnd& /*end*/) override { on_end_(Status::Ok()); }
  void OnError(const Status& status) override { on_end_(status); }

 private:
  const std::function<void(const Status&)> on_end_;
};

}  // namespace

Result<PinnedPrompt> MakePinnedPrompt(const llama::LlamaEngine& engine, const std::string& text) {
  if (text.empty()) return Status::InvalidArgument("a prompt to pin is empty");
  const std::vector<llama::ChatMessage> message = {{"system", text}};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> digests, DigestsOf(message));
  PinnedPrompt prompt;
  prompt.name = kNameBegin + digests.front();
  const uint64_t most = engine.info().max_context;
  llama::TokenizeLimits limits;
  if (most > 0) limits.max_tokens = most;
  limits.progress = [&engine](uint64_t, uint64_t) {
    const std::function<bool()>& keep_going = engine.options().keep_going;
    return !keep_going || keep_going();
  };
  ATTNDB_ASSIGN_OR_RETURN(llama::PromptText begun,
                          llama::DocumentText(engine, false, text, "", limits));
  prompt.tokens = std::move(begun.tokens);
  prompt.text = std::move(begun.text);
  if (most > 0 && prompt.tokens.size() > most) {
    const bool may_be_more = text.size() > limits.piece_bytes;
    return Status::InvalidArgument("a prompt to pin has " +
                                   std::string(may_be_more ? "at least " : "") +
                                   Counted(prompt.tokens.size(), "token") +
                                   ", but the model is meant for " + FormatCount(most));
  }
  return prompt;
}

Result<std::shared_ptr<Turn>> TurnOf(const llama::LlamaEngine& engine, Conversations* conversations,
                                     const std::string& tenant, const PinnedPrompt& prompt,
                                     std::function<void(const Status&)> on_end) {
  ATTNDB_ASSIGN_OR_RETURN(const DB db, conversations->HandleOf(tenant));
  const Result<ContextInfo> there = db.Describe(prompt.name);
  if (there.ok() && !there->damaged && there->fingerprint == engine.spec().fingerprint &&
      there->kv_dtype == engine.spec().kv_dtype && there->num_tokens == prompt.tokens.size()) {
    // Another context may have been given the name.
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, db.Tokens(prompt.name));
    if (tokens == prompt.tokens) {
      if (!there->pinned) ATTNDB_RETURN_IF_ERROR(db.Pin(prompt.name));
      return std::shared_ptr<Turn>();
    }
  }
  ATTNDB_ASSIGN_OR_RETURN(Continuation start, conversations->Start(tenant, prompt.tokens, "full"));
  if (start.is_unread) conversations->Load(&start.session);
  TurnRequest request;
  request.id = prompt.name;
  request.tenant = tenant;
  request.prompt = prompt.tokens;
  request.text = prompt.text;
  request.received_seconds = MonotonicSeconds();
  request.store = StoreOptions{.replace = true, .pin = true};
  request.generate.max_tokens = 1;  // Its token is sampled and not run, so that it is not stored.
  return std::make_shared<Turn>(std::move(request), std::move(start.session), std::move(start.rest),
                                std::make_shared<EndListener>(std::move(on_end)));
}

}  // namespace attndb::server
