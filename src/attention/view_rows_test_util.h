// A source of rows of one kv head, for tests of code that attends to them.
#ifndef ATTNDB_ATTENTION_VIEW_ROWS_TEST_UTIL_H_
#define ATTNDB_ATTENTION_VIEW_ROWS_TEST_UTIL_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "attention/head_run.h"
#include "kernels/layout.h"
#include "storage/kv/row_source.h"

namespace attndb::attention {

class ViewRows final : public storage::RowSource {
 public:
  // Adds the next run. The views must outlive this.
  HeadRun Add(TokenRange tokens, const kernels::RowsView& k, const kernels::RowsView& v) {
    views_.emplace_back(k, v);
    return {.tokens = tokens,
            .origin = tokens.begin,
            .number = static_cast<uint32_t>(views_.size() - 1),
            .k_elements = k.num_elements,
            .v_elements = v.num_elements,
            .dtype = v.dtype};
  }

  Status Acquire(storage::RowLease* lease) const override {
    for (const storage::RowRequest& request : lease->requests()) {
      const auto& [k, v] = views_[request.strip.run];
      const kernels::RowsView& rows = request.strip.part == storage::RowPart::kKeys ? k : v;
      if (request.list != nullptr) {
        lease->PlaceList({rows, request.list});
      } else {
        lease->PlaceRange(kernels::RowsFrom(rows, request.first), request.count, 0);
      }
    }
    return Status::Ok();
  }

 private:
  std::vector<std::pair<kernels::RowsView, kernels::RowsView>> views_;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_VIEW_ROWS_TEST_UTIL_H_
