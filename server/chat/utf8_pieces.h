// UTF-8 of bytes that come in pieces: a character whose bytes have not all come waits for them.
#ifndef ATTNDB_SERVER_CHAT_UTF8_PIECES_H_
#define ATTNDB_SERVER_CHAT_UTF8_PIECES_H_

#include <string>
#include <string_view>

namespace attndb::server {

class Utf8Pieces {
 public:
  // Returns the characters that `bytes` complete. A byte that is part of no character becomes
  // U+FFFD.
  std::string Push(std::string_view bytes);
  // Returns U+FFFD for each byte that still waits.
  std::string Finish();

 private:
  std::string waiting_;  // The beginning of a character.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CHAT_UTF8_PIECES_H_
