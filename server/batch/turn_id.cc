#include "server/batch/turn_id.h"

#include <openssl/rand.h>

#include <array>

#include "engines/llama/fingerprint.h"

namespace attndb::server {
namespace {

constexpr std::string_view kPrefix = "turn-";
constexpr size_t kDigestDigits = 24;
constexpr size_t kOwnDigits = 12;

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
    // The length keeps words from moving between fields.
    ATTNDB_ASSIGN_OR_RETURN(digest, llama::TextDigest(digest + std::to_string(message.role.size()) +
                                                      ":" + message.role + message.content));
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

std::optional<std::string> DigestIn(std::string_view id) {
  if (id.size() != kPrefix.size() + kDigestDigits + 1 + kOwnDigits) return std::nullopt;
  if (!id.starts_with(kPrefix) || id[kPrefix.size() + kDigestDigits] != '-') return std::nullopt;
  return std::string(id.substr(kPrefix.size(), kDigestDigits));
}

}  // namespace attndb::server
