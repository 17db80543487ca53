#include "server/batch/parting.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engines/llama/utf8_bytes.h"

namespace attndb::server {
namespace {

using llama::ContinuesUtf8Char;

uint64_t NumCharacters(std::string_view text) {
  return text.size() - static_cast<size_t>(std::ranges::count_if(text, ContinuesUtf8Char));
}

// The words of a message up to the byte `end`, without the control tokens that a reply hides.
std::string WordsOf(const llama::RenderedPrompt& prompt, uint64_t begin, uint64_t end) {
  std::string words;
  uint64_t at = 0;
  for (const llama::PromptItem& item : prompt.items) {
    const uint64_t first = std::max(begin, at);
    const uint64_t last = std::min(end, at + item.text.size());
    if (!item.control && first < last) words += item.text.substr(first - at, last - first);
    at += item.text.size();
  }
  return words;
}

// The bytes [begin, end) of a prompt.
std::string BytesOf(const llama::RenderedPrompt& prompt, uint64_t begin, uint64_t end) {
  std::string bytes;
  uint64_t at = 0;  // Where the item begins.
  for (const llama::PromptItem& item : prompt.items) {
    if (at >= end) break;
    const uint64_t item_end = at + item.text.size();
    if (item_end > begin) {
      const uint64_t first = std::max(begin, at) - at;
      bytes += item.text.substr(first, std::min(end, item_end) - at - first);
    }
    at = item_end;
  }
  return bytes;
}

// The bytes that stored tokens say from a byte of the first one on; as many as are shown.
Result<std::string> BytesFrom(const llama::LlamaEngine& engine, std::span<const TokenId> tokens,
                              uint64_t first_byte) {
  std::string bytes;
  for (const TokenId& token : tokens) {
    if (bytes.size() >= first_byte + kMaxPartedBytes) break;
    const auto one = std::span(&token, 1);
    ATTNDB_ASSIGN_OR_RETURN(std::string piece, engine.ReplyText(one));
    if (piece.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(piece, engine.Detokenize(one, /*render_special=*/true));
    }
    bytes += piece;
  }
  return bytes.substr(std::min<size_t>(bytes.size(), first_byte));
}

// Characters of the content in front of what the prompt shows: a template may trim contents.
uint64_t NumTrimmed(std::string_view content, std::string_view shown) {
  if (content.size() == shown.size()) return 0;
  const size_t at = content.find(shown);
  return at == std::string_view::npos ? 0 : NumCharacters(content.substr(0, at));
}

}  // namespace

std::string PlaceText(const Parted& parted) {
  return std::to_string(parted.message) + ":" + std::to_string(parted.character);
}

std::string Escaped(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\r') {
      text += "\\r";
    } else if (c == '\t') {
      text += "\\t";
    } else if (c == '"' || c == '\\') {
      text.append("\\").append(1, c);
    } else if (c < ' ' || c > '~') {
      char form[5];
      std::snprintf(form, sizeof(form), "\\x%02x", static_cast<unsigned>(c) & 0xff);
      text += form;
    } else {
      text += c;
    }
  }
  return text;
}

Result<std::optional<Parted>> PartedAt(const llama::LlamaEngine& engine,
                                       const llama::PromptParting& place,
                                       const llama::RenderedPrompt& rendered,
                                       std::span<const llama::ChatMessage> messages,
                                       std::span<const TokenId> stored) {
  if (rendered.messages.empty() || rendered.messages.size() != messages.size()) {
    return std::optional<Parted>();
  }
  const bool is_behind = place.message >= messages.size();
  Parted parted;
  parted.message = is_behind ? messages.size() - 1 : place.message;
  const llama::ByteRange range = rendered.messages[parted.message];
  const std::string shown = WordsOf(rendered, range.begin, range.end);
  const uint64_t end = is_behind ? range.end : range.begin + place.message_byte;
  size_t at = WordsOf(rendered, range.begin, std::min(end, range.end)).size();
  size_t num_shared = 0;  // Bytes of a character that both texts begin.
  while (at > 0 && at < shown.size() && ContinuesUtf8Char(shown[at])) {
    --at;
    ++num_shared;
  }
  parted.character = NumCharacters(std::string_view(shown).substr(0, at)) +
                     NumTrimmed(messages[parted.message].content, shown);
  const uint64_t begin = place.prompt_byte - num_shared;
  const std::string asked = BytesOf(rendered, begin, begin + kMaxPartedBytes);
  parted.asked = Escaped(asked);
  ATTNDB_ASSIGN_OR_RETURN(const std::string behind,
                          BytesFrom(engine, stored.subspan(place.token), place.token_byte));
  const std::string said = asked.substr(0, num_shared) + behind;
  parted.stored = Escaped(std::string_view(said).substr(0, kMaxPartedBytes));
  return std::optional(std::move(parted));
}

}  // namespace attndb::server
