#include "engines/llama/chat_render.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/llama/chat_json.h"
#include "engines/llama/message_places.h"
#include "engines/llama/special_tokens.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {
namespace {

// A character that the texts of a request don't have, and how JSON may write it.
struct Mark {
  std::string text;
  std::string escape;
};

// Characters for private use: no text has all of them.
constexpr uint32_t kFirstMark = 0xE000;
constexpr uint32_t kLastMark = 0xF8FF;

Mark MarkOf(uint32_t code) {
  constexpr char kDigits[] = "0123456789abcdef";
  Mark mark;
  mark.text = {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 63)),
               static_cast<char>(0x80 | (code & 63))};
  mark.escape = "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) mark.escape += kDigits[(code >> shift) & 15];
  return mark;
}

using Texts = std::vector<std::string_view>;

Result<Mark> FreeMark(const Texts& texts) {
  for (uint32_t code = kFirstMark; code <= kLastMark; ++code) {
    Mark mark = MarkOf(code);
    const bool is_there = std::ranges::any_of(texts, [&mark](std::string_view text) {
      return text.find(mark.text) != std::string_view::npos ||
             text.find(mark.escape) != std::string_view::npos;
    });
    if (!is_there) return mark;
  }
  return Status::InvalidArgument("the chat has each character that is for private use");
}

// Takes marks out of a text, and tells where its bytes are without them.
class Unmarked {
 public:
  Unmarked(const std::string& marked, const Mark& mark) {
    size_t begin = 0;
    while (true) {
      const size_t plain = marked.find(mark.text, begin);
      const size_t escaped = marked.find(mark.escape, begin);
      const size_t at = std::min(plain, escaped);
      text_.append(marked, begin, at - begin);
      if (at == std::string::npos) return;
      begin = at + (plain < escaped ? mark.text : mark.escape).size();
      ends_.push_back(begin);
      removed_.push_back(begin - text_.size());
    }
  }

  std::string& text() { return text_; }
  // The place of a byte of the marked text.
  uint64_t PlaceOf(uint64_t at) const {
    const auto behind = std::ranges::upper_bound(ends_, at);
    return behind == ends_.begin() ? at
                                   : at - removed_[static_cast<size_t>(behind - ends_.begin()) - 1];
  }

 private:
  std::string text_;
  std::vector<uint64_t> ends_;     // Where each mark ends in the marked text.
  std::vector<uint64_t> removed_;  // Bytes of all marks up to this one.
};

void Unmark(const Mark& mark, std::string* text) {
  *text = std::move(Unmarked(*text, mark).text());
}

void UnmarkForm(const Mark& mark, ReplyForm* form) {
  for (std::string* text :
       {&form->parser, &form->generation_prompt, &form->grammar, &form->thinking_start}) {
    Unmark(mark, text);
  }
  for (auto* texts : {&form->shown_tokens, &form->stop, &form->thinking_ends}) {
    for (std::string& text : *texts) Unmark(mark, &text);
  }
  for (GrammarTrigger& trigger : form->triggers) Unmark(mark, &trigger.text);
}

// A chat with marks in its texts.
class MarkedChat {
 public:
  static Result<MarkedChat> Make(const SpecialTokens& special,
                                 std::span<const ChatMessage> messages,
                                 const ChatOptions& options) {
    Texts texts = {options.tools, options.json_schema};
    for (const ChatMessage& message : messages) {
      texts.insert(texts.end(), {message.content, message.more, message.role, message.parts});
    }
    for (const auto& [name, value] : options.variables) texts.push_back(value);
    MarkedChat chat;
    ATTNDB_ASSIGN_OR_RETURN(chat.mark_, FreeMark(texts));
    const auto marked = [&](std::string_view text) {
      return special.Marked(text, chat.mark_.text);
    };
    for (const ChatMessage& message : messages) {
      chat.messages_.push_back({marked(message.role), marked(message.content), marked(message.more),
                                marked(message.parts)});
      chat.contents_.push_back(chat.messages_.back().content);
    }
    chat.options_ = options;
    chat.options_.tools = marked(options.tools);
    for (auto& [name, value] : chat.options_.variables) value = marked(value);
    if (options.now == 0) chat.options_.now = std::time(nullptr);
    return chat;
  }

  const Mark& mark() const { return mark_; }
  const std::vector<std::string>& contents() const { return contents_; }

  Result<ChatInput> Input() const {
    ATTNDB_ASSIGN_OR_RETURN(std::string json, MessagesJson(messages_));
    return ChatInput{.messages = std::move(json), .options = options_};
  }

  // Where the prompt shows the contents.
  std::vector<ByteRange> Places(std::string_view prompt, const AddedTexts& added,
                                ChatRenderer* renderer) const {
    if (auto ranges = PlacesByWords(prompt, contents_)) return *std::move(ranges);
    if (auto ranges = PlacesBesideMarkup(prompt, added, renderer)) return *std::move(ranges);
    return FirstPlaces(prompt, contents_);
  }

 private:
  std::optional<std::vector<ByteRange>> PlacesBesideMarkup(std::string_view prompt,
                                                           const AddedTexts& added,
                                                           ChatRenderer* renderer) const;

  Mark mark_;
  std::vector<ChatMessage> messages_;
  std::vector<std::string> contents_;
  ChatOptions options_;
};

std::optional<std::vector<ByteRange>> MarkedChat::PlacesBesideMarkup(std::string_view prompt,
                                                                     const AddedTexts& added,
                                                                     ChatRenderer* renderer) const {
  std::vector<ChatMessage> messages = messages_;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].content.empty()) messages[i].content = Placeholder(i);
    messages[i].parts.clear();
  }
  Result<std::string> json = MessagesJson(messages);
  if (!json.ok()) return std::nullopt;
  const Result<std::string> markup =
      renderer->RenderText({.messages = *std::move(json), .options = options_});
  if (!markup.ok()) return std::nullopt;
  return PlacesByMarkup(prompt, WithoutAdded(*markup, added), contents_);
}

// Cuts a text into items at its control tokens and around its contents.
void AddItems(const SpecialTokens& special, std::string_view marked, const Unmarked& unmarked,
              std::string_view text, RenderedPrompt* prompt) {
  size_t begin = 0;
  auto content = prompt->messages.begin();
  const auto add = [&](size_t end, bool is_content) {
    if (end > begin) {
      prompt->items.push_back({text.substr(begin, end - begin), std::nullopt, is_content});
    }
    begin = std::max(begin, end);
  };
  // The text up to `end` has no control token.
  const auto add_text = [&](size_t end) {
    for (; content != prompt->messages.end() && content->begin < end; ++content) {
      if (content->begin == content->end) continue;
      add(content->begin, false);
      add(std::min<size_t>(content->end, end), true);
      if (content->end > end) return;
    }
    add(end, false);
  };
  for (const SpecialTokens::Place& place : special.Find(marked)) {
    if (!place.token->is_control) continue;
    add_text(unmarked.PlaceOf(place.begin));
    const std::string_view name = place.token->text;
    prompt->items.push_back({text.substr(begin, name.size()), place.token->id, false});
    begin += name.size();
  }
  add_text(text.size());
}

}  // namespace

std::string_view WithoutAdded(std::string_view prompt, const AddedTexts& added) {
  if (prompt.starts_with(added.front)) prompt.remove_prefix(added.front.size());
  if (prompt.ends_with(added.back)) prompt.remove_suffix(added.back.size());
  return prompt;
}

Result<RenderedPrompt> RenderChat(const Tokenizer& tokenizer, const AddedTexts& added,
                                  std::span<const ChatMessage> messages, const ChatOptions& options,
                                  ChatRenderer* renderer) {
  ATTNDB_RETURN_IF_ERROR(tokenizer.CheckPresent());
  const SpecialTokens& special = tokenizer.special();
  ATTNDB_ASSIGN_OR_RETURN(const MarkedChat chat, MarkedChat::Make(special, messages, options));
  ATTNDB_ASSIGN_OR_RETURN(const ChatInput input, chat.Input());
  ATTNDB_ASSIGN_OR_RETURN(ChatPlan plan, renderer->Render(input));
  const std::string marked(WithoutAdded(plan.prompt, added));
  Unmarked unmarked(marked, chat.mark());

  RenderedPrompt prompt;
  prompt.form = std::move(plan.form);
  UnmarkForm(chat.mark(), &prompt.form);
  // Each piece of a streamed reply is read. A parser has 60 KB.
  if (!prompt.form.parser.empty()) prompt.form.parser_id = ParserIdOf(prompt.form.parser);
  prompt.messages = chat.Places(marked, added, renderer);
  for (ByteRange& message : prompt.messages) {
    message = {unmarked.PlaceOf(message.begin), unmarked.PlaceOf(message.end)};
  }
  prompt.texts.push_back(std::make_shared<const std::string>(std::move(unmarked.text())));
  AddItems(special, marked, unmarked, *prompt.texts.back(), &prompt);
  if (prompt.items.empty()) {
    return Status::Unsupported("the model's chat template makes an empty prompt of these messages");
  }
  return prompt;
}

}  // namespace attndb::llama
