#include "server/chat/line_filter.h"

#include <re2/re2.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/json.h"

namespace attndb::server {
namespace {

re2::StringPiece PieceOf(std::string_view text) { return {text.data(), text.size()}; }

bool IsOfSystem(const llama::ChatMessage& message) {
  return message.role == "system" || message.role == "developer";
}

}  // namespace

struct LineFilter::Expressions {
  std::vector<std::unique_ptr<const re2::RE2>> all;

  bool Match(std::string_view line) const {
    return std::ranges::any_of(all, [line](const std::unique_ptr<const re2::RE2>& expression) {
      return re2::RE2::PartialMatch(PieceOf(line), *expression);
    });
  }
};

Result<LineFilter> LineFilter::Make(std::span<const std::string> expressions) {
  LineFilter filter;
  if (expressions.empty()) return filter;
  auto made = std::make_shared<Expressions>();
  for (const std::string& text : expressions) {
    if (text.empty()) {
      return Status::InvalidArgument("an expression is empty: it would match each line");
    }
    re2::RE2::Options options;
    options.set_log_errors(false);
    auto expression = std::make_unique<const re2::RE2>(text, options);
    if (!expression->ok()) {
      return Status::InvalidArgument("'" + text +
                                     "' is no regular expression of RE2: " + expression->error());
    }
    made->all.push_back(std::move(expression));
  }
  filter.expressions_ = std::move(made);
  return filter;
}

uint64_t LineFilter::Apply(std::string* text) const {
  if (expressions_ == nullptr) return 0;
  uint64_t num_deleted = 0;
  std::string kept;
  size_t num_copied = 0;  // Bytes of the text up to which `kept` is made.
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = std::min(text->find('\n', begin), text->size() - 1) + 1;
    std::string_view line = std::string_view(*text).substr(begin, end - begin);
    if (line.ends_with('\n')) {
      line.remove_suffix(1);
      if (line.ends_with('\r')) line.remove_suffix(1);
    }
    if (expressions_->Match(line)) {
      ++num_deleted;
      kept.append(*text, num_copied, begin - num_copied);
      num_copied = end;
    }
    begin = end;
  }
  if (num_deleted == 0) return 0;
  kept.append(*text, num_copied);
  *text = std::move(kept);
  return num_deleted;
}

uint64_t LineFilter::Apply(std::span<llama::ChatMessage> messages) const {
  if (expressions_ == nullptr) return 0;
  uint64_t num_deleted = 0;
  for (llama::ChatMessage& message : messages) {
    if (!IsOfSystem(message)) continue;
    const uint64_t num_of_message = Apply(&message.content);
    num_deleted += num_of_message;
    if (num_of_message == 0 || message.parts.empty()) continue;
    Json parts = Json::array();
    for (Json part : ReadOwnJson(message.parts)) {
      std::string text = part["text"].get<std::string>();
      Apply(&text);
      part["text"] = std::move(text);
      if (part["text"] != "") parts.push_back(std::move(part));
    }
    message.parts = parts.empty() ? std::string() : ToText(parts);
  }
  return num_deleted;
}

}  // namespace attndb::server
