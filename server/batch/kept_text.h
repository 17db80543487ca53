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
  // Tokens that left as pieces of the text: its words are those of the others. In order.
  std::vector<TokenRange> left_out = {};
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_KEPT_TEXT_H_
