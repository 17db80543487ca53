#include "server/batch/turn_id.h"

#include <openssl/rand.h>

#include <array>

#include "engines/llama/fingerprint.h"
#include "server/json.h"

namespace attndb::server {
namespace {

constexpr std::string_view kPrefix = "turn-";
constexpr size_t kDigestDigits = 24;
constexpr size_t kOwnDigits = 12;

// The length keeps words from moving between fields.
std::string Field(std::string_view text) {
  return std::to_string(text.size()).append(":").append(text);
}

Status WrongCalls() {
  return Status::InvalidArgument("'tool_calls' of a message are no list of calls of functions");
}

// Returns the text that stands for a message's tool calls in its digest; empty: it has none.
Result<std::string> CallsOf(const llama::ChatMessage& message) {
  if (message.more.empty()) return std::string();
  const Json more = ReadOwnJson(message.more);
  const Json* const calls = FindMember(more, "tool_calls");
  if (calls == nullptr) return std::string();
  if (!calls->is_array()) return WrongCalls();
  std::string text;
  for (const Json& call : *calls) {
    const Json* const function = call.is_object() ? FindMember(call, "function") : nullptr;
    if (function == nullptr || !function->is_object()) return WrongCalls();
    std::string name;
    ATTNDB_RETURN_IF_ERROR(ReadString(*function, "name", &name));
    const Json* const arguments = FindMember(*function, "arguments");
    text += Field(name);
    if (arguments == nullptr) {
      text += Field("");
    } else {
      text += Field(arguments->is_string() ? arguments->get<std::string>() : ToText(*arguments));
    }
  }
  return text;
}

// Returns the text that stands for a message in its digest. The text of a message without calls
// begins with a digit; that of a message with calls does not.
Result<std::string> CountedText(const llama::ChatMessage& message) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string calls, CallsOf(message));
  if (calls.empty()) return Field(message.role) + message.content;
  return "calls " + Field(message.role) + Field(message.content) + calls;
}

}  // namespace

uint64_t RandomBits() {
  std::array<unsigned char, sizeof(uint64_t)> bytes{};
  RAND_bytes(bytes.data(), static_cast<int>(bytes.size()));
  uint64_t bits = 0;
  for (const unsigned char byte : bytes) bits = bits << 8 | byte;
  return bits;
}

Result<std::vector<std::string>> DigestsOf(std::span<const llama::ChatMessage> messages) {
  std::vector<std::string> digests;
  std::string digest;
  for (const llama::ChatMessage& message : messages) {
    ATTNDB_ASSIGN_OR_RETURN(const std::string counted, CountedText(message));
    ATTNDB_ASSIGN_OR_RETURN(digest, llama::TextDigest(digest + counted));
    digest.resize(kDigestDigits);
    digests.push_back(digest);
  }
  return digests;
}

Result<std::string> DigestOf(std::span<const TokenId> tokens) {
  // The same on machines of either order of bytes: a store may move to another one.
  std::string bytes;
  bytes.reserve(tokens.size() * sizeof(TokenId));
  for (const TokenId token : tokens) {
    for (size_t i = 0; i < sizeof(TokenId); ++i) {
      bytes += static_cast<char>(static_cast<uint32_t>(token) >> (8 * i) & 0xff);
    }
  }
  return llama::TextDigest(bytes);
}

std::string NewTurnId(const std::string& digest) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string id(kPrefix);
  if (!digest.empty()) id += digest + "-";
  uint64_t bits = RandomBits();
  for (size_t i = 0; i < kOwnDigits; ++i, bits >>= 4) id += kHex[bits & 15];
  return id;
}

bool IsTurnId(std::string_view name) { return name.starts_with(kPrefix); }

std::optional<std::string> DigestIn(std::string_view id) {
  if (id.size() != kPrefix.size() + kDigestDigits + 1 + kOwnDigits) return std::nullopt;
  if (!IsTurnId(id) || id[kPrefix.size() + kDigestDigits] != '-') return std::nullopt;
  return std::string(id.substr(kPrefix.size(), kDigestDigits));
}

}  // namespace attndb::server
