// Attention over all tokens that a row sees.
//
// Threads: as operator.h.
#ifndef ATTNDB_ATTENTION_DENSE_OPERATOR_H_
#define ATTNDB_ATTENTION_DENSE_OPERATOR_H_

#include "attention/streaming.h"

namespace attndb::attention {

class DenseOperator final : public Streaming {
 public:
  WorkCut cut() const override { return {}; }
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_DENSE_OPERATOR_H_
