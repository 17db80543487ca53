#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/types.h"
#include "attndb/units.h"
#include "common/quote.h"

namespace attndb {
namespace {

// By the numbers of TextForm and TextRole.
constexpr std::array<std::string_view, 4> kForms = {"", "raw", "document", "dialogue"};
constexpr std::array<std::string_view, 4> kRoles = {"system", "user", "assistant", "other"};

constexpr std::string_view kTime = " at:";
constexpr std::string_view kLeftOut = " without:";

// Takes a whole number off the text.
template <typename Number = uint64_t>
std::optional<Number> TakeCount(std::string_view* text) {
  Number value = 0;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(stop - text->data()));
  return value;
}

// Takes "24-90" off the text.
std::optional<TokenRange> TakeRange(std::string_view* text) {
  const std::optional<uint64_t> begin = TakeCount(text);
  if (!begin || !text->starts_with('-')) return std::nullopt;
  text->remove_prefix(1);
  const std::optional<uint64_t> end = TakeCount(text);
  if (!end) return std::nullopt;
  return TokenRange{*begin, *end};
}

// Takes " user:24-90" off the text.
std::optional<TextMessage> TakeMessage(std::string_view* text) {
  if (!text->starts_with(' ')) return std::nullopt;
  text->remove_prefix(1);
  for (size_t role = 0; role < kRoles.size(); ++role) {
    if (!text->starts_with(std::string(kRoles[role]) + ':')) continue;
    text->remove_prefix(kRoles[role].size() + 1);
    const std::optional<TokenRange> tokens = TakeRange(text);
    if (!tokens) return std::nullopt;
    return TextMessage{static_cast<TextRole>(role), *tokens};
  }
  return std::nullopt;
}

// Takes " without:24-90,95-130" off the text. It may have no ranges, or more than a layout has:
// Parse compares.
std::vector<TokenRange> TakeLeftOut(std::string_view* text) {
  std::vector<TokenRange> ranges;
  if (!text->starts_with(kLeftOut)) return ranges;
  do {
    text->remove_prefix(ranges.empty() ? kLeftOut.size() : 1);
    const std::optional<TokenRange> range = TakeRange(text);
    if (!range) break;
    ranges.push_back(*range);
  } while (text->starts_with(',') && ranges.size() <= TextLayout::kMaxLeftOut);
  return ranges;
}

std::string TextOf(const TokenRange& range) {
  return std::to_string(range.begin) + '-' + std::to_string(range.end);
}

std::string TextOfMessage(const TextMessage& message) {
  return std::string(kRoles[static_cast<size_t>(message.role)]) + ':' + TextOf(message.tokens);
}

Status CheckMessages(const std::vector<TextMessage>& messages, uint64_t num_tokens) {
  if (messages.size() > TextLayout::kMaxMessages) {
    return Status::InvalidArgument("text has more than " +
                                   Counted(TextLayout::kMaxMessages, "message"));
  }
  uint64_t least = 0;
  for (const TextMessage& message : messages) {
    const bool is_role = static_cast<size_t>(message.role) < kRoles.size();
    const TokenRange& range = message.tokens;
    if (is_role && range.begin >= least && range.begin < range.end && range.end <= num_tokens) {
      least = range.end;
      continue;
    }
    return Status::InvalidArgument(
        "text has a message of tokens " + std::to_string(range.begin) + " to " +
        std::to_string(range.end) + ", expected ranges in order, not empty, below " +
        std::to_string(num_tokens) + ", of the system, the user, the assistant or another");
  }
  return Status::Ok();
}

Status CheckLeftOut(const std::vector<TokenRange>& left_out, uint64_t num_tokens) {
  if (left_out.size() > TextLayout::kMaxLeftOut) {
    return Status::InvalidArgument("text lacks more than " +
                                   Counted(TextLayout::kMaxLeftOut, "piece"));
  }
  uint64_t least = 0;
  for (const TokenRange& range : left_out) {
    if (range.begin < least || range.begin >= range.end || range.end > num_tokens) {
      return Status::InvalidArgument("text lacks tokens " + std::to_string(range.begin) + " to " +
                                     std::to_string(range.end) +
                                     ", expected ranges in order, not empty, not adjacent, below " +
                                     std::to_string(num_tokens));
    }
    least = range.end + 1;
  }
  return Status::Ok();
}

}  // namespace

std::string TextLayout::ToString() const {
  std::string text(kForms[static_cast<size_t>(form)]);
  if (rendered_at != 0) text.append(kTime).append(std::to_string(rendered_at));
  for (size_t i = 0; i < left_out.size(); ++i) {
    text.append(i == 0 ? kLeftOut : ",").append(TextOf(left_out[i]));
  }
  for (const TextMessage& message : messages) text += ' ' + TextOfMessage(message);
  return text;
}

Result<TextLayout> TextLayout::Parse(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(' '));
  TextLayout parsed;
  for (size_t form = 0; form < kForms.size(); ++form) {
    if (name == kForms[form]) parsed.form = static_cast<TextForm>(form);
  }
  std::string_view rest = text.substr(name.size());
  if (rest.starts_with(kTime)) {
    rest.remove_prefix(kTime.size());
    parsed.rendered_at = TakeCount<int64_t>(&rest).value_or(0);
  }
  parsed.left_out = TakeLeftOut(&rest);
  while (parsed.messages.size() <= kMaxMessages) {
    const std::optional<TextMessage> message = TakeMessage(&rest);
    if (!message) break;
    parsed.messages.push_back(*message);
  }
  ATTNDB_RETURN_IF_ERROR(parsed.Validate(UINT64_MAX));
  if (!rest.empty() || parsed.ToString() != text) {
    return Status::InvalidArgument("text is " + Quoted(text) +
                                   ", expected raw, document or dialogue, at:SECONDS of its "
                                   "template, without:BEGIN-END,... of what it lacks, and "
                                   "ROLE:BEGIN-END of its messages");
  }
  return parsed;
}

Status TextLayout::Validate(uint64_t num_tokens) const {
  if (static_cast<size_t>(form) >= kForms.size()) {
    return Status::InvalidArgument("text.form is " + std::to_string(static_cast<int>(form)) +
                                   ", expected 0 to " + std::to_string(kForms.size() - 1));
  }
  const bool takes_messages = form == TextForm::kDocument || form == TextForm::kDialogue;
  if (!takes_messages && !messages.empty()) {
    return Status::InvalidArgument("text has " + Counted(messages.size(), "message") +
                                   ", expected none where it is no document and no dialogue");
  }
  if (rendered_at < 0 || (!takes_messages && rendered_at != 0)) {
    return Status::InvalidArgument("text has the time " + std::to_string(rendered_at) +
                                   ", expected one from 0 on, and 0 where it is no document and "
                                   "no dialogue");
  }
  ATTNDB_RETURN_IF_ERROR(CheckMessages(messages, num_tokens));
  return CheckLeftOut(left_out, num_tokens);
}

}  // namespace attndb
