#include "server/openai/token_logprobs.h"

#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include "engines/llama/utf8_bytes.h"

namespace attndb::server {
namespace {

// OpenAI's value for the least likely tokens. JSON has no minus infinity.
constexpr double kLeastLogprob = -9999.0;

double AtLeast(double logprob) { return logprob >= kLeastLogprob ? logprob : kLeastLogprob; }

// Bytes of the whole character that `text` begins with; 0: it begins with none.
size_t WholeCharacter(std::string_view text) {
  size_t length = 1;
  while (length < text.size() && llama::ContinuesUtf8Char(text[length])) ++length;
  return IsUtf8(std::string(text.substr(0, length))) ? length : 0;
}

// Bytes that are no whole character become "\xNN", as OpenAI writes them.
std::string Readable(const std::string& bytes) {
  if (IsUtf8(bytes)) return bytes;
  std::string text;
  for (std::string_view rest = bytes; !rest.empty();) {
    const size_t length = WholeCharacter(rest);
    if (length > 0) {
      text += rest.substr(0, length);
      rest.remove_prefix(length);
      continue;
    }
    std::array<char, 5> digits;
    std::snprintf(digits.data(), digits.size(), "\\x%02x", static_cast<unsigned char>(rest[0]));
    text += digits.data();
    rest.remove_prefix(1);
  }
  return text;
}

// The legacy form has no bytes: a prefix says that the text has them.
std::string LegacyText(const std::string& bytes) {
  return IsUtf8(bytes) ? bytes : "bytes:" + Readable(bytes);
}

Json BytesOf(const std::string& text) {
  Json bytes = Json::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

// Appends an item to the text of a list.
void Append(const Json& item, std::string* list) {
  if (!list->empty()) *list += ',';
  *list += ToText(item);
}

std::string TakeList(std::string* list) { return "[" + std::exchange(*list, std::string()) + "]"; }

}  // namespace

void TokenLogprobs::Add(std::span<const llama::ReplyToken> tokens) {
  num_tokens_ += tokens.size();
  for (const llama::ReplyToken& token : tokens) {
    form_ == LogprobForm::kLegacy ? AddLegacy(token) : AddContent(token);
  }
}

void TokenLogprobs::AddContent(const llama::ReplyToken& token) {
  const bool is_prob = form_ == LogprobForm::kProbs;
  const char* const name = is_prob ? "prob" : "logprob";
  const auto value = [is_prob](double chance) { return is_prob ? chance : AtLeast(chance); };
  Json top = Json::array();
  for (const llama::LikelyToken& likely : token.likeliest) {
    top.push_back({{"id", likely.token},
                   {"token", Readable(likely.text)},
                   {"bytes", likely.is_named ? Json() : BytesOf(likely.text)},
                   {name, value(likely.chance)}});
  }
  Append({{"id", token.token},
          {"token", Readable(token.text)},
          {"bytes", BytesOf(token.text)},
          {name, value(token.chance)},
          {is_prob ? "top_probs" : "top_logprobs", std::move(top)}},
         &content_);
}

void TokenLogprobs::AddLegacy(const llama::ReplyToken& token) {
  Append(LegacyText(token.text), &texts_);
  Append(AtLeast(token.chance), &chances_);
  Append(num_chars_, &offsets_);
  for (const char byte : token.text) {
    if (!llama::ContinuesUtf8Char(byte)) ++num_chars_;
  }
  if (token.likeliest.empty()) return;
  has_likeliest_ = true;
  Json top = Json::object();
  bool has_own = false;
  for (const llama::LikelyToken& likely : token.likeliest) {
    const bool is_own = likely.token == token.token;
    // If two tokens have the same text, the likelier one counts.
    top.emplace(LegacyText(is_own ? token.text : likely.text), AtLeast(likely.chance));
    has_own = has_own || is_own;
  }
  if (!has_own) top.emplace(LegacyText(token.text), AtLeast(token.chance));
  Append(top, &likeliest_);
}

std::string TokenLogprobs::Take() {
  num_tokens_ = 0;
  if (form_ != LogprobForm::kLegacy) {
    return R"({"content":)" + TakeList(&content_) + R"(,"refusal":null})";
  }
  return R"({"tokens":)" + TakeList(&texts_) + R"(,"token_logprobs":)" + TakeList(&chances_) +
         R"(,"top_logprobs":)" +
         (std::exchange(has_likeliest_, false) ? TakeList(&likeliest_) : "null") +
         R"(,"text_offset":)" + TakeList(&offsets_) + "}";
}

std::string TextWithLogprobs(const Json& json, const std::string& logprobs) {
  // In a string each quotation mark has a backslash before it: this is found in none.
  constexpr std::string_view kNone = R"("logprobs":null)";
  std::string text = ToText(json);
  const size_t at = text.find(kNone);
  if (at == std::string::npos) return text;
  constexpr size_t kNullBytes = 4;
  text.replace(at + kNone.size() - kNullBytes, kNullBytes, logprobs);
  return text;
}

}  // namespace attndb::server
