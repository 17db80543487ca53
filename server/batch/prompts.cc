#include "server/batch/prompts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/batch/edits.h"
#include "server/batch/turn_id.h"

namespace attndb::server {
namespace {

constexpr std::string_view kSystem = "system";
constexpr std::string_view kDeveloper = "developer";
constexpr std::string_view kContextRole = "context";  // What a prompt continues: its digest.
constexpr std::string_view kUser = "user";

TextRole RoleOf(const std::string& role) {
  if (role == kSystem || role == kDeveloper) return TextRole::kSystem;
  if (role == kUser) return TextRole::kUser;
  return role == kAssistantRole ? TextRole::kAssistant : TextRole::kOther;
}

// How many first tokens of a reply say these words, hidden ones included; nullopt: none do.
Result<std::optional<size_t>> NumSaying(const llama::LlamaEngine& engine,
                                        std::span<const TokenId> reply, std::string_view words) {
  std::string said;
  for (size_t i = 0; i < reply.size() && said.size() < words.size(); ++i) {
    ATTNDB_ASSIGN_OR_RETURN(const std::string piece, engine.ReplyText(reply.subspan(i, 1)));
    said += piece;
    if (!words.starts_with(said)) break;
    if (said.size() == words.size()) return std::optional(i + 1);
  }
  return std::optional<size_t>();
}

// Whether a turn's last reply begins with these words.
Result<bool> EndsWithReply(const llama::LlamaEngine& engine, const KeptText& turn,
                           std::string_view words) {
  const std::vector<TextMessage>& messages = turn.text.messages;
  if (messages.empty() || messages.back().role != TextRole::kAssistant) return false;
  const TokenRange& range = messages.back().tokens;
  ATTNDB_ASSIGN_OR_RETURN(
      const std::string text,
      engine.ReplyText(std::span(turn.tokens).subspan(range.begin, range.end - range.begin)));
  return text.starts_with(words);
}

}  // namespace

Result<Prompt> Prompts::OfText(const std::string& tenant, const std::string& context,
                               const std::string& text, const Limits& limits) const {
  ATTNDB_ASSIGN_OR_RETURN(const Subject subject, Open(tenant, context));
  const llama::StoredContext& before = subject.stored;
  const llama::PromptPart part = {"", text};
  ATTNDB_ASSIGN_OR_RETURN(const llama::JoinedText joined,
                          engine_->Join(before.tokens, std::span(&part, 1), {.limits = limits}));
  Prompt prompt;
  prompt.num_last = joined.tokens.size() - joined.num_kept;
  Take(before.text, joined, {}, &prompt);
  return prompt;
}

Result<Prompt> Prompts::OfTokens(const std::string& tenant, const std::string& context,
                                 const std::vector<TokenId>& tokens) const {
  const uint32_t vocab_size = engine_->info().vocab_size;
  for (const TokenId token : tokens) {
    if (token >= 0 && static_cast<uint32_t>(token) < vocab_size) continue;
    return Status::InvalidArgument("'prompt' has token " + std::to_string(token) +
                                   ", the vocabulary has ids 0 to " +
                                   std::to_string(vocab_size - 1));
  }
  Prompt prompt;
  ATTNDB_ASSIGN_OR_RETURN(Subject before, Open(tenant, context));
  prompt.tokens = std::move(before.stored.tokens);
  prompt.text = std::move(before.stored.text);
  prompt.tokens.insert(prompt.tokens.end(), tokens.begin(), tokens.end());
  prompt.num_last = tokens.size();
  return prompt;
}

Result<Prompts::Subject> Prompts::Open(const std::string& tenant,
                                       const std::string& context) const {
  Subject subject;
  subject.context = context;
  llama::StoredContext& stored = subject.stored;
  if (context.empty()) {
    stored.text.form = TextForm::kRaw;  // Bare text, to which nothing was said.
    return subject;
  }
  ATTNDB_ASSIGN_OR_RETURN(KeptText kept, conversations_->TextOf(tenant, context));
  if (!kept.left_out.empty()) {
    subject.left_out = kept.left_out;
    subject.whole = kept.tokens;
  }
  TakeOutPieces(&kept);
  stored.tokens = std::move(kept.tokens);
  stored.text = std::move(kept.text);
  ATTNDB_ASSIGN_OR_RETURN(stored.layout, llama::LayoutOf(*engine_, stored.text, stored.tokens));
  return subject;
}

Result<Prompt> Prompts::OfChat(const std::string& tenant, const std::string& context,
                               Messages messages, const llama::ChatOptions& options,
                               const Limits& limits, Edits edits) const {
  ATTNDB_ASSIGN_OR_RETURN(Chat chat, AskedChat(tenant, context, messages, options));
  chat.edits = edits;
  return PromptOf(chat, limits);
}

Result<uint64_t> Prompts::NumTokensOfChat(const std::string& tenant, const std::string& context,
                                          Messages messages, const llama::ChatOptions& options,
                                          const Limits& limits) const {
  ATTNDB_ASSIGN_OR_RETURN(const Chat chat, AskedChat(tenant, context, messages, options));
  ATTNDB_ASSIGN_OR_RETURN(const Followed followed, Follow(chat, limits));
  return followed.text.joined.tokens.size();
}

Result<Prompt> Prompts::OfReply(const std::string& tenant, const std::string& context,
                                Messages messages, const llama::ChatOptions& options,
                                const Limits& limits) const {
  if (messages.size() < 2) return Status::InvalidArgument("messages[0] is a reply to nothing");
  ATTNDB_ASSIGN_OR_RETURN(const Chat chat,
                          ChatOf(tenant, context, messages.first(messages.size() - 1), options,
                                 &messages.back().content));
  ATTNDB_ASSIGN_OR_RETURN(Prompt prompt, PromptOf(chat, limits));
  const Tokens asked = std::move(prompt.tokens);
  const std::string_view words = messages.back().content;
  const llama::PromptPart part = {"", words};
  ATTNDB_ASSIGN_OR_RETURN(
      llama::JoinedText best,
      engine_->Join(asked, std::span(&part, 1), {.keeps_before = true, .limits = limits}));
  size_t num_kept = asked.size();
  std::vector<llama::PromptItem> items = chat.rendered.items;
  items.push_back({words, std::nullopt, /*is_content=*/true});
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<KeptText> turns,
                          conversations_->Candidates(tenant, chat.digests.back()));
  for (const KeptText& turn : turns) {
    if (CommonLength(asked, turn.tokens) < asked.size()) continue;
    const auto told = std::span(turn.tokens).subspan(asked.size());
    ATTNDB_ASSIGN_OR_RETURN(const auto num_saying, NumSaying(*engine_, told, words));
    if (num_saying) {
      prompt.num_last = *num_saying;
      const auto said = std::span(turn.tokens).first(asked.size() + *num_saying);
      prompt.tokens.assign(said.begin(), said.end());
      return prompt;
    }
    ATTNDB_ASSIGN_OR_RETURN(
        llama::FollowedText followed,
        engine_->Follow(turn.tokens, items,
                        {.keeps_before = true, .limits = limits, .messages = {}}));
    if (followed.joined.num_kept <= num_kept) continue;
    num_kept = followed.joined.num_kept;
    best = std::move(followed.joined);
  }
  prompt.num_last = best.tokens.size() - asked.size();
  prompt.tokens = std::move(best.tokens);
  return prompt;
}

Result<Prompts::Subject> Prompts::SubjectOf(const std::string& tenant,
                                            const std::string& context) const {
  if (context.empty()) return Subject();
  ATTNDB_ASSIGN_OR_RETURN(Subject subject, Open(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(std::string digest, DigestOf(subject.stored.tokens));
  subject.front.push_back({std::string(kContextRole), std::move(digest)});
  return subject;
}

Result<Prompts::Chat> Prompts::ChatOf(const std::string& tenant, const std::string& context,
                                      Messages messages, const llama::ChatOptions& options,
                                      const std::string* reply) const {
  Chat chat;
  chat.tenant = tenant;
  chat.messages = messages;
  chat.options = options;
  ATTNDB_ASSIGN_OR_RETURN(chat.subject, SubjectOf(tenant, context));
  const std::vector<llama::ChatMessage>& front = chat.subject.front;
  std::vector<llama::ChatMessage> all = front;
  all.insert(all.end(), messages.begin(), messages.end());
  ATTNDB_ASSIGN_OR_RETURN(chat.digests, DigestsOf(all));
  chat.digests.erase(chat.digests.begin(),
                     chat.digests.begin() + static_cast<std::ptrdiff_t>(front.size()));
  ATTNDB_ASSIGN_OR_RETURN(chat.options.now, TimeOf(chat, reply));
  if (context.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(chat.rendered, engine_->Render(messages, chat.options));
  } else {
    ATTNDB_RETURN_IF_ERROR(RenderBehindContext(&chat));
  }
  return chat;
}

Result<Prompts::Chat> Prompts::AskedChat(const std::string& tenant, const std::string& context,
                                         Messages messages,
                                         const llama::ChatOptions& options) const {
  Result<Chat> chat = ChatOf(tenant, context, messages, options);
  if (chat.status().code() != StatusCode::kUnsupported) return chat;
  return Status::Unsupported(chat.status().message() +
                             "; /v1/completions takes text without a template");
}

Result<int64_t> Prompts::TimeOf(const Chat& chat, const std::string* reply) const {
  const int64_t now = engine_->ChatTime();
  if (now == 0) return int64_t{0};
  const int64_t of_context = chat.subject.stored.text.rendered_at;
  if (of_context != 0) return of_context;
  const size_t num_messages = chat.messages.size();
  for (size_t at = num_messages + (reply != nullptr ? 1 : 0); at-- > 1;) {
    if (at < num_messages && chat.messages[at].role != kAssistantRole) continue;
    ATTNDB_ASSIGN_OR_RETURN(std::vector<KeptText> turns,
                            conversations_->Candidates(chat.tenant, chat.digests[at - 1]));
    std::erase_if(turns, [](const KeptText& turn) { return turn.text.rendered_at == 0; });
    for (const KeptText& turn : turns) {
      if (at < num_messages) break;
      ATTNDB_ASSIGN_OR_RETURN(const bool says, EndsWithReply(*engine_, turn, *reply));
      if (says) return turn.text.rendered_at;
    }
    if (!turns.empty()) return turns.front().text.rendered_at;
  }
  return now;
}

Status Prompts::RenderBehindContext(Chat* chat) const {
  const llama::ChatOptions& options = chat->options;
  const Subject& subject = chat->subject;
  const std::string has_own = "context '" + subject.context + "' has its own beginning";
  const llama::ChatMessage& first = chat->messages.front();
  if (first.role != kUser) {
    return Status::InvalidArgument("messages[0] is of the " + first.role +
                                   ", expected a question of the user: " + has_own);
  }
  if (!options.tools.empty()) return Status::InvalidArgument(has_own + ": tools can't be shown");
  ATTNDB_ASSIGN_OR_RETURN(chat->parts, PartsFor(subject, chat->messages, options.now));
  if (options.continues_last && chat->parts.size() > chat->messages.size()) {
    chat->parts.pop_back();  // The end of the last message, and the assistant's header.
  }
  ATTNDB_ASSIGN_OR_RETURN(chat->rendered, engine_->RenderTokens(subject.stored.tokens));
  ATTNDB_ASSIGN_OR_RETURN(llama::RenderedPrompt behind, engine_->RenderParts(chat->parts));
  behind.messages.resize(chat->messages.size());
  chat->rendered.Append(std::move(behind));
  ATTNDB_ASSIGN_OR_RETURN(chat->rendered.form, FormBehind(subject, options));
  return Status::Ok();
}

Result<llama::PromptParts> Prompts::PartsFor(const Subject& subject, Messages messages,
                                             int64_t now) const {
  const std::string& question = messages.front().content;
  switch (subject.stored.layout) {
    case llama::PromptLayout::kDialogue: {
      // Only their number matters, and the roles: the parts are those behind them.
      std::vector<llama::ChatMessage> turns = {{std::string(kUser), ""}, {kAssistantRole, ""}};
      turns.insert(turns.end(), messages.begin(), messages.end());
      ATTNDB_ASSIGN_OR_RETURN(llama::PromptParts parts, engine_->ConversationParts(turns, 2, now));
      for (size_t i = 0; i < messages.size(); ++i) parts[i].content = messages[i].content;
      return parts;
    }
    case llama::PromptLayout::kDocument: {
      ATTNDB_ASSIGN_OR_RETURN(llama::PromptParts parts,
                              engine_->ConversationParts(messages, 1, now));
      parts.insert(parts.begin(), {std::string(llama::kQuestionGap), question});
      return parts;
    }
    case llama::PromptLayout::kRaw:
      break;
  }
  if (messages.size() > 1) {
    return Status::InvalidArgument("context '" + subject.context +
                                   "' is bare text, which takes one message, not " +
                                   std::to_string(messages.size()));
  }
  return llama::PromptParts{{"", question}};
}

// Replies to a context are read as those to a question alone. Bare text has no form.
Result<llama::ReplyForm> Prompts::FormBehind(const Subject& subject,
                                             const llama::ChatOptions& options) const {
  llama::ReplyForm form;
  if (subject.stored.layout != llama::PromptLayout::kRaw) {
    const llama::ChatMessage question = {std::string(kUser), "x"};
    llama::ChatOptions without = options;
    without.continues_last = false;
    ATTNDB_ASSIGN_OR_RETURN(llama::RenderedPrompt rendered,
                            engine_->Render(std::span(&question, 1), without));
    form = std::move(rendered.form);
  } else if (!options.json_schema.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(form.grammar, engine_->GrammarOfSchema(options.json_schema));
  }
  return form;
}

Result<Prompt> Prompts::PromptOf(const Chat& chat, const Limits& limits) const {
  ATTNDB_ASSIGN_OR_RETURN(Followed followed, Follow(chat, limits));
  const Subject& subject = chat.subject;
  llama::JoinedText& joined = followed.text.joined;
  Prompt prompt;
  prompt.digest = chat.digests.back();
  prompt.form = chat.rendered.form;
  joined.num_kept = CommonLength(subject.stored.tokens, joined.tokens);
  const bool is_bare = !engine_->info().has_chat_template;
  const TextLayout begun = is_bare ? TextLayout{TextForm::kRaw, {}}
                                   : TextLayout{TextForm::kDialogue, {}, followed.rendered_at};
  Take(subject.context.empty() ? begun : subject.stored.text, joined, chat.messages, &prompt);
  ATTNDB_ASSIGN_OR_RETURN(prompt.num_system, NumSystem(chat, joined, prompt));
  ATTNDB_ASSIGN_OR_RETURN(prompt.num_last, NumLast(chat, joined, prompt.num_system, limits));
  ATTNDB_ASSIGN_OR_RETURN(prompt.parted, PartedOf(chat, followed, prompt.text, limits));
  PutBack(followed.stored, followed.left_out, &prompt.tokens);
  PutBack(followed.left_out, &prompt.text);
  prompt.left_out = std::move(followed.left_out);
  return prompt;
}

void Prompts::Take(const TextLayout& before, const llama::JoinedText& joined, Messages messages,
                   Prompt* prompt) {
  std::vector<TextRole> roles;
  if (!joined.contents.empty()) {
    for (const llama::ChatMessage& message : messages) roles.push_back(RoleOf(message.role));
  }
  prompt->text = llama::Continued(before, joined, roles);
  prompt->tokens = joined.tokens;
}

Result<uint64_t> Prompts::NumLast(const Chat& chat, const llama::JoinedText& joined,
                                  uint64_t num_system, const Limits& limits) const {
  const uint64_t num_tokens = joined.tokens.size();
  const size_t num_messages = chat.messages.size();
  if (num_messages == 1) {
    const bool is_system = RoleOf(chat.messages.front().role) == TextRole::kSystem;
    return num_tokens - (is_system ? 0 : std::max(joined.num_kept, num_system));
  }
  if (!joined.contents.empty()) return num_tokens - joined.contents[num_messages - 2].end;
  // The prompt does not show where its messages are.
  ATTNDB_ASSIGN_OR_RETURN(const Tokens last,
                          engine_->Tokenize(chat.messages.back().content, /*add_special=*/false,
                                            /*parse_special=*/false, limits));
  return std::min<uint64_t>(last.size(), num_tokens);
}

Result<uint64_t> Prompts::NumSystem(const Chat& chat, const llama::JoinedText& joined,
                                    const Prompt& prompt) const {
  const bool is_raw = prompt.text.form == TextForm::kRaw;
  if (!chat.subject.context.empty() || joined.contents.empty()) {
    if (is_raw) return uint64_t{0};
    return llama::SystemTokens(*engine_, prompt.text, prompt.tokens);
  }
  const std::vector<TokenRange>& contents = joined.contents;
  if (RoleOf(chat.messages.front().role) == TextRole::kSystem) {
    if (contents.size() > 1) return contents[1].begin;
    return is_raw ? contents[0].end : 0;
  }
  if (is_raw) return uint64_t{0};
  if (!chat.options.tools.empty()) return contents[0].begin;
  ATTNDB_ASSIGN_OR_RETURN(const bool has_own, HasOwnSystem());
  return has_own ? contents[0].begin : 0;
}

Result<bool> Prompts::HasOwnSystem() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!has_own_system_) {
    const llama::ChatMessage question = {std::string(kUser), "x"};
    ATTNDB_ASSIGN_OR_RETURN(const llama::RenderedPrompt rendered,
                            engine_->Render(std::span(&question, 1)));
    ATTNDB_ASSIGN_OR_RETURN(const llama::FollowedText text, engine_->Follow({}, rendered.items));
    const TextLayout dialogue = {TextForm::kDialogue, {}};
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_system,
                            llama::SystemTokens(*engine_, dialogue, text.joined.tokens));
    has_own_system_ = num_system > 0;
  }
  return *has_own_system_;
}

}  // namespace attndb::server
