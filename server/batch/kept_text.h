// The tokens of a context, whose words they are, its title, and the pieces that left.
#ifndef ATTNDB_SERVER_BATCH_KEPT_TEXT_H_
#define ATTNDB_SERVER_BATCH_KEPT_TEXT_H_

#include <string>
#include <vector>

#include "attndb/types.h"

namespace attndb::server {

struct KeptText {
  std::vector<TokenId> tokens;
  TextLayout text;
  std::string title = {};
  // The pieces that left the session, as ranges of `tokens` in order. TakeOutPieces gives the words
  // that the model still has.
  std::vector<TokenRange> left_out = {};
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_KEPT_TEXT_H_
