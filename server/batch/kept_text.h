// The tokens of a context, whose words they are, and its title.
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
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_KEPT_TEXT_H_
