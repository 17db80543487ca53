// The stored turn that a prompt follows, and where it leaves its predecessor.
#include <algorithm>
#include <string>
#include <utility>

#include "engines/llama/window.h"
#include "server/batch/edits.h"
#include "server/batch/hidden_tokens.h"
#include "server/batch/prompts.h"

namespace attndb::server {
namespace {

// Tokens that a prompt shares with a conversation in memory, if that may be its predecessor.
constexpr uint64_t kLeastShared = 32;

// Whether the prompt has all words of a turn's reply, whose message ends at the place. The turn
// says something else behind them.
bool IsBehindWords(const llama::PromptParting& place, std::span<const llama::ByteRange> messages,
                   size_t reply) {
  if (place.message != reply || place.message >= messages.size()) return false;
  const llama::ByteRange& words = messages[reply];
  return words.end > words.begin && place.message_byte == words.end - words.begin;
}

// Whether a turn says no more of a prompt than another one does, which was followed.
bool SaysNoMore(std::span<const TokenId> turn, std::span<const TokenId> other,
                const llama::FollowedText& followed, Edits edits) {
  const size_t num_same = CommonLength(turn, other);
  if (num_same == turn.size()) return true;
  // Where a prompt is edited, it may say the rest of one turn alone.
  return edits == Edits::kExact && followed.parted && num_same > followed.parted->token;
}

// Whether the token with which a turn leaves another one, which was followed, says something else
// than the prompt there. REQUIRES: the prompt shows both the same time.
bool SaysOther(const llama::LlamaEngine& engine, std::span<const TokenId> turn,
               std::span<const TokenId> other, const llama::FollowedText& followed) {
  constexpr size_t kMostTokens = 8;  // The tokens of the prompt that are compared.
  const std::span<const TokenId> prompt = followed.joined.tokens;
  const size_t num_same = CommonLength(turn, other);
  if (num_same >= turn.size() || num_same > followed.joined.num_kept) return false;
  const std::span<const TokenId> rest = prompt.subspan(std::min(num_same, prompt.size()));
  const auto said = engine.ReplyText(turn.subspan(num_same, 1));
  const auto asked = engine.ReplyText(rest.first(std::min(rest.size(), kMostTokens)));
  if (!said.ok() || !asked.ok()) return false;
  return !asked->starts_with(*said) && !said->starts_with(*asked);
}

// Whether the tokens that a prompt keeps of a turn have a whole reply among them. Another
// conversation may begin with the same system message, and even ask the same.
bool KeepsAReply(const llama::FollowedText& text, std::span<const llama::ChatMessage> messages) {
  const std::vector<TokenRange>& contents = text.joined.contents;
  for (size_t i = 0; i < std::min(messages.size(), contents.size()); ++i) {
    const bool is_reply = messages[i].role == kAssistantRole && contents[i].end > contents[i].begin;
    if (is_reply && contents[i].end <= text.joined.num_kept) return true;
  }
  return false;
}

bool IsBetter(const llama::FollowedText& text, const llama::FollowedText& other) {
  const uint64_t num_kept = text.joined.num_kept;
  if (num_kept != other.joined.num_kept) return num_kept > other.joined.num_kept;
  return !text.parted && other.parted;
}

}  // namespace

Result<std::optional<Parted>> Prompts::PartedOf(const Chat& chat, const Followed& followed,
                                                const TextLayout& text,
                                                const Limits& limits) const {
  const auto nowhere = std::optional<Parted>();
  const llama::FollowedText& own = followed.text;
  const llama::RenderedPrompt& rendered = followed.rendered ? *followed.rendered : chat.rendered;
  if (followed.turn && own.parted) {
    if (IsBehindWords(*own.parted, rendered.messages, followed.reply)) return nowhere;
    return PartedAt(*engine_, *own.parted, rendered, chat.messages, followed.turn->tokens);
  }
  const std::vector<TokenId>& tokens = own.joined.tokens;
  auto like = conversations_->LiveLike(chat.tenant, tokens, text);
  if (like == nullptr || CommonLength(like->tokens, tokens) < kLeastShared) {
    like = conversations_->StoredLike(chat.tenant, tokens, text);
  }
  if (like == nullptr) return nowhere;
  const size_t num_shared = CommonLength(like->tokens, tokens);
  const uint64_t least = followed.turn ? CommonLength(followed.turn->tokens, tokens) : 0;
  if (num_shared == like->tokens.size() || num_shared < std::max(least, kLeastShared)) {
    return nowhere;
  }
  ATTNDB_ASSIGN_OR_RETURN(const llama::FollowedText other,
                          engine_->Follow(like->tokens, rendered.items,
                                          {.limits = limits, .messages = rendered.messages}));
  if (!other.parted) return nowhere;
  return PartedAt(*engine_, *other.parted, rendered, chat.messages, like->tokens);
}

Result<Prompts::Followed> Prompts::Follow(const Chat& chat, const Limits& limits) const {
  std::optional<Followed> best;
  Work work;
  for (size_t reply = chat.messages.size(); reply-- > 1 && work.num_followed < kMaxFollowed;) {
    if (chat.messages[reply].role != kAssistantRole) continue;
    ATTNDB_RETURN_IF_ERROR(FollowTurns(chat, reply, limits, &work, &best));
    // Earlier turns say no more of it, unless the prompt leaves the best one before its reply.
    if (best && (!best->text.parted || best->text.parted->message >= reply)) break;
  }
  const bool may_be_edited = chat.edits == Edits::kCut && (!best || best->text.parted);
  if (may_be_edited) ATTNDB_RETURN_IF_ERROR(FollowLongest(chat, limits, &best));
  const Tokens& context = chat.subject.stored.tokens;
  const uint64_t num_kept = best ? best->text.joined.num_kept : 0;
  if (num_kept > 0 && num_kept >= context.size()) return *std::move(best);
  Followed without;
  without.rendered_at = chat.options.now;
  ATTNDB_ASSIGN_OR_RETURN(without.text, FollowContext(chat, limits));
  if (best && without.text.joined.num_kept <= num_kept) return *std::move(best);
  if (chat.edits == Edits::kCut) {
    without.stored = chat.subject.whole;
    without.left_out = chat.subject.left_out;
  }
  return without;
}

Status Prompts::FollowTurns(const Chat& chat, size_t reply, const Limits& limits, Work* work,
                            std::optional<Followed>* best) const {
  ATTNDB_ASSIGN_OR_RETURN(std::vector<KeptText> turns,
                          conversations_->Candidates(chat.tenant, chat.digests[reply - 1]));
  return FollowEach(chat, reply, std::move(turns), limits, work, best);
}

Status Prompts::FollowLongest(const Chat& chat, const Limits& limits,
                              std::optional<Followed>* best) const {
  Tokens prompt;
  if (*best) {
    prompt = (*best)->text.joined.tokens;
  } else {
    ATTNDB_ASSIGN_OR_RETURN(llama::FollowedText text, FollowContext(chat, limits));
    prompt = std::move(text.joined.tokens);
  }
  Work work;
  return FollowEach(chat, chat.messages.size(), conversations_->Longest(chat.tenant, prompt),
                    limits, &work, best);
}

Status Prompts::FollowEach(const Chat& chat, size_t reply, std::vector<KeptText> turns,
                           const Limits& limits, Work* work, std::optional<Followed>* best) const {
  for (KeptText& turn : turns) {
    if (*best && SaysNoMore(turn.tokens, (*best)->turn->tokens, (*best)->text, chat.edits)) {
      continue;
    }
    if (*best && chat.edits == Edits::kExact &&
        turn.text.rendered_at == (*best)->turn->text.rendered_at &&
        SaysOther(*engine_, turn.tokens, (*best)->turn->tokens, (*best)->text)) {
      continue;
    }
    if (++work->num_followed > kMaxFollowed) break;
    Result<Followed> followed = FollowTurn(chat, reply, std::move(turn), limits, work);
    // Another model's turn may have ids that this one lacks.
    if (followed.status().code() == StatusCode::kInvalidArgument) continue;
    ATTNDB_RETURN_IF_ERROR(followed.status());
    if (reply == chat.messages.size() && !KeepsAReply(followed->text, chat.messages)) continue;
    if (!*best || IsBetter(followed->text, (*best)->text)) *best = *std::move(followed);
  }
  return Status::Ok();
}

Result<Prompts::Followed> Prompts::FollowTurn(const Chat& chat, size_t reply, KeptText turn,
                                              const Limits& limits, Work* work) const {
  const auto follow = [&](const llama::RenderedPrompt& rendered) {
    return engine_->Follow(turn.tokens, rendered.items,
                           {.limits = limits, .messages = rendered.messages});
  };
  Followed followed;
  followed.reply = reply;
  ATTNDB_RETURN_IF_ERROR(RenderAtTimeOf(turn, chat, &followed));
  const llama::RenderedPrompt& plain = followed.rendered ? *followed.rendered : chat.rendered;
  ATTNDB_ASSIGN_OR_RETURN(followed.text, follow(plain));
  if (followed.text.parted && reply < chat.messages.size()) {
    const auto other = std::span(turn.tokens).subspan(followed.text.parted->token, 1);
    ATTNDB_ASSIGN_OR_RETURN(const std::string piece, engine_->ReplyText(other));
    if (piece.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(llama::RenderedPrompt shown,
                              WithHiddenTokens(*engine_, plain, chat.messages, reply, turn));
      ATTNDB_ASSIGN_OR_RETURN(llama::FollowedText text, follow(shown));
      if (IsBetter(text, followed.text)) {
        followed.text = std::move(text);
        followed.rendered = std::move(shown);
      }
    }
  }
  followed.turn = std::move(turn);
  const bool may_be_edited = chat.edits == Edits::kCut && followed.text.parted;
  if (may_be_edited && work->num_searched < kMaxSearched) {
    ++work->num_searched;
    ATTNDB_RETURN_IF_ERROR(LeaveOut(chat, limits, &followed));
  }
  return followed;
}

Status Prompts::RenderAtTimeOf(const KeptText& turn, const Chat& chat, Followed* followed) const {
  followed->rendered_at = chat.options.now;
  const int64_t turns_own = turn.text.rendered_at;
  // A chat behind a context shows the context's time already.
  if (!chat.subject.context.empty() || turns_own == 0 || turns_own == chat.options.now) {
    return Status::Ok();
  }
  llama::ChatOptions dated = chat.options;
  dated.now = followed->rendered_at = turns_own;
  ATTNDB_ASSIGN_OR_RETURN(followed->rendered, engine_->Render(chat.messages, dated));
  return Status::Ok();
}

Status Prompts::LeaveOut(const Chat& chat, const Limits& limits, Followed* followed) const {
  const llama::RenderedPrompt& rendered = followed->rendered ? *followed->rendered : chat.rendered;
  Tokens& tokens = followed->turn->tokens;
  if (limits.progress != nullptr && !limits.progress(0, tokens.size())) {
    return Status::Cancelled("the search for pieces that the prompt leaves out was cancelled");
  }
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenRange> left_out,
                          engine_->LeftOut(tokens, rendered.items));
  if (left_out.empty()) return Status::Ok();
  Tokens others = Without(tokens, left_out);
  ATTNDB_ASSIGN_OR_RETURN(
      llama::FollowedText text,
      engine_->Follow(others, rendered.items, {.limits = limits, .messages = rendered.messages}));
  const uint64_t num_kept = text.joined.num_kept;
  if (num_kept <= followed->text.joined.num_kept) return Status::Ok();
  // Tokens that are kept stand behind each piece.
  while (!left_out.empty() && left_out.back().end >= num_kept + llama::NumTokensOf(left_out)) {
    left_out.pop_back();
  }
  if (left_out.empty()) return Status::Ok();
  followed->text = std::move(text);
  followed->left_out = std::move(left_out);
  followed->stored = std::exchange(tokens, std::move(others));
  return Status::Ok();
}

Result<llama::FollowedText> Prompts::FollowContext(const Chat& chat, const Limits& limits) const {
  const Tokens& context = chat.subject.stored.tokens;
  ATTNDB_ASSIGN_OR_RETURN(llama::FollowedText text,
                          engine_->Follow(context, chat.rendered.items,
                                          {.limits = limits, .messages = chat.rendered.messages}));
  if (!text.parted) return text;
  // It has tokens that no text says, such as the unknown one.
  ATTNDB_ASSIGN_OR_RETURN(text.joined, engine_->Join(context, chat.parts, {.limits = limits}));
  text.joined.contents.resize(chat.messages.size());
  text.parted.reset();
  return text;
}

}  // namespace attndb::server
