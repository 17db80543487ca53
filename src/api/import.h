// Stores a KV cache that was computed elsewhere, piece by piece. It needs memory for a few thousand
// tokens in addition to the source. When all is stored, the pieces are merged into segments of
// DBOptions::import_segment_tokens, as far as memory and disk have room.
//
// Errors:  those of the source; of Session::Append (a value that overflows kv_dtype); of DB::Store.
//          After an error nothing is visible and nothing has changed: all pieces are published in
//          one commit.
// Threads: as DB.
#ifndef ATTNDB_API_IMPORT_H_
#define ATTNDB_API_IMPORT_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "attndb/db.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"
#include "common/context_number.h"

namespace attndb::internal {

class Database;

// The source of the rows. Views are valid until the next call.
class ImportSource {
 public:
  virtual ~ImportSource() = default;

  // K and V of tokens `range` of `layer`.
  virtual Result<LayerKv> Rows(LayerId layer, TokenRange range) = 0;
  // The number of last tokens whose q of `layer` the source has; 0 = none.
  virtual uint64_t num_queries(LayerId layer) const = 0;
  // q of tokens `range`, which are all among these last tokens.
  virtual Result<TensorView> Queries(LayerId layer, TokenRange range) = 0;
};

struct ImportRequest {
  std::string tenant;
  const ModelSpec* spec = nullptr;  // Not owned.
  std::span<const TokenId> tokens;
  std::span<const Cut> cuts;  // The cuts that K and V depend on: store::CheckCuts.
  int64_t first_position = 0;
  StoreOptions store;
  // Called after each piece but the last, with the tokens done and in all; false cancels. May be
  // null.
  std::function<bool(uint64_t tokens_done, uint64_t tokens_total)> progress;
};

Result<ContextNumber> ImportContext(Database* database, const ImportRequest& request,
                                    ImportSource* source);

}  // namespace attndb::internal

#endif  // ATTNDB_API_IMPORT_H_
