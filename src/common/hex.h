// Bytes and ids as lower-case hexadecimal text: file names, messages, the CLI.
//
// Threads: pure functions.
#ifndef ATTNDB_COMMON_HEX_H_
#define ATTNDB_COMMON_HEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attndb {

std::string HexEncode(std::span<const std::byte> bytes);

// nullopt unless `text` is an even number of digits 0-9, a-f, A-F.
std::optional<std::vector<std::byte>> HexDecode(std::string_view text);

// Exactly 16 (8) lower-case digits, most significant first: text order is numeric order.
std::string HexU64(uint64_t value);
std::string HexU32(uint32_t value);

// Inverse of HexU64; nullopt for anything else, upper-case digits too (one name for one id).
std::optional<uint64_t> ParseHexU64(std::string_view text);

}  // namespace attndb

#endif  // ATTNDB_COMMON_HEX_H_
