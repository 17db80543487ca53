// The tokens of a context, and whose words they are.
#ifndef ATTNDB_SERVER_BATCH_KEPT_TEXT_H_
#define ATTNDB_SERVER_BATCH_KEPT_TEXT_H_

#include <vector>

#include "attndb/types.h"

namespace attndb::server {

struct KeptText {
  std::vector<TokenId> tokens;
  TextLayout text;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_KEPT_TEXT_H_
