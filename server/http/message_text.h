// HTTP/1.1 messages as bytes: heads of answers, pieces of chunked bodies, paths.
//
// Threads: stateless.
#ifndef ATTNDB_SERVER_HTTP_MESSAGE_TEXT_H_
#define ATTNDB_SERVER_HTTP_MESSAGE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/exchange.h"

namespace attndb::server {

// Names of header fields, which have no case, as they are kept.
std::string LowerCase(std::string_view text);

// "Bad Request"
std::string_view ReasonPhrase(int status);

// The length of a body that comes in chunks, and of one that ends with the connection.
inline constexpr size_t kInChunks = SIZE_MAX;
inline constexpr size_t kToItsEnd = SIZE_MAX - 1;

// The status line and the header fields, with the empty line behind them. `length`: that of the
// body. Header values with line ends in them are left out.
std::string HeadOf(const Response& response, size_t length, bool keep_alive);

// The answer to what is no request, or one too many: its body is as those of the routes' errors.
Response RefusalOf(int status, std::string_view why);

// One piece of a chunked body, and its end.
std::string ChunkOf(std::string_view piece);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// The path of a request target: without query, percent signs decoded. None: it is not well-formed.
std::optional<std::string> PathOf(std::string_view target);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_HTTP_MESSAGE_TEXT_H_
