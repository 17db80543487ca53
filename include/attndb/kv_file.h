// A context in one file, to move it between stores, engines and programs: tokens, model spec, K and
// V of each layer, and q if wanted. The format is safetensors with the schema of
// docs/formats/import.md, so that any language reads and writes it.
//
//   ATTNDB_ASSIGN_OR_RETURN(ContextId id, ImportKvFile(db, "book.safetensors",
//                                                      {.store = {.name = "book"}}));
//   ATTNDB_RETURN_IF_ERROR(ExportKvFile(db, "book", "copy.safetensors"));
//
// Shapes:  as in session.h: k [n, num_kv_heads, head_dim], v [n, num_kv_heads, v_head_dim], q [n,
//          num_q_heads, head_dim], any strides. K and q are rotated, in the RoPE layout that the
//          spec names.
// Errors:  a file is hostile until it was checked. kInvalidArgument: the file is not of this
//          format, or has impossible values; kUnsupported: a newer version; kCorruption: the file
//          became shorter during a read; kNotFound, kIoError. A message names the file, the object
//          in it, what was expected and what was found.
// Threads: a reader is thread-safe; a writer is thread-compatible.
#ifndef ATTNDB_KV_FILE_H_
#define ATTNDB_KV_FILE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/db.h"
#include "attndb/dtype.h"
#include "attndb/export.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/tensor_view.h"
#include "attndb/types.h"

namespace attndb {

namespace internal {
class KvFileReaderImpl;
class KvFileWriterImpl;
}  // namespace internal

// The contents of a file, except K, V and q.
struct KvFileContents {
  ModelSpec spec;
  std::vector<TokenId> tokens;
  int64_t first_position = 0;  // Position of token 0 under RoPE.
  // The cuts of the context (Session::DropOldest). The K and V of dropped tokens are in the file;
  // tokens after a cut did not see them.
  std::vector<Cut> cuts;
  // Layers in the file, ascending. A writer takes an empty list as all layers. A file that lacks
  // layers can be read, but not imported.
  std::vector<LayerId> layers;
  uint64_t num_queries = 0;  // Each layer has q of this many last tokens.
  DType query_dtype = DType::kFloat32;
  TextLayout text_layout;  // The text as a chat template sees it.
  std::string title;       // StoreOptions::title, and the next one's note. Import takes both unless
  std::string note;        // its own options have others.
  // Notes for people; attndb does not interpret them. Keys of [a-z0-9_] that do not begin with
  // "attndb_", and values in UTF-8.
  std::map<std::string, std::string> notes;

  bool is_complete() const { return layers.size() == spec.layers.size(); }
};

// Called from time to time with the bytes of K and V done and in all. False cancels: the call fails
// with kCancelled and leaves nothing behind. May be null.
using KvFileProgress = std::function<bool(uint64_t bytes_done, uint64_t bytes_total)>;

struct KvFileImportOptions {
  StoreOptions store;
  std::string fingerprint;  // Replaces the file's fingerprint; empty = the file's own.
  KvFileProgress progress;
};

struct KvFileExportOptions {
  KvFileProgress progress;
};

class ATTNDB_EXPORT KvFileReader {
 public:
  // Reads and checks everything but K, V and q themselves. Errors: as above.
  static Result<KvFileReader> Open(const std::string& path);
  KvFileReader(KvFileReader&&) noexcept;
  KvFileReader& operator=(KvFileReader&&) noexcept;
  ~KvFileReader();

  const KvFileContents& contents() const;

  // Copies tokens [range.begin, range.end) of `layer` into arrays of float32 or of the file's type.
  // A view whose data is null is not filled.
  // Errors: kInvalidArgument (a layer that the file lacks; range, shape, dtype); kCorruption,
  //         kIoError.
  Status ReadKv(LayerId layer, TokenRange range, const MutableTensorView& k,
                const MutableTensorView& v) const;
  // Copies q in the same way. `range` counts tokens of the context, all of them among the last
  // num_queries.
  Status ReadQueries(LayerId layer, TokenRange range, const MutableTensorView& q) const;

  // Stores the file as a context, which is durable when Import returns. Needs memory for about 4096
  // tokens, whatever the file's length. Then merges its segments: DBOptions::import_segment_tokens.
  // Cost:   as DB::Import.
  // Errors: kInvalidArgument (not all layers; a value that overflows kv_dtype); those of DB::Store.
  //         Nothing is stored then.
  Result<ContextId> Import(const DB& db, const KvFileImportOptions& options = {}) const;

 private:
  explicit KvFileReader(std::unique_ptr<internal::KvFileReaderImpl> impl);

  std::unique_ptr<internal::KvFileReaderImpl> impl_;  // Null only after a move.
};

// Writes a file layer by layer. The file appears under its name, whole and durable, when Finish
// returns. A writer that is destroyed before leaves nothing.
class ATTNDB_EXPORT KvFileWriter {
 public:
  // Errors: kAlreadyExists (`path`; a file is never replaced); kInvalidArgument (contents).
  static Result<KvFileWriter> Create(const std::string& path, const KvFileContents& contents);
  KvFileWriter(KvFileWriter&&) noexcept;
  KvFileWriter& operator=(KvFileWriter&&) noexcept;
  ~KvFileWriter();

  // Layers come in ascending order. k and v have one row per token; q has one row for each of the
  // last num_queries tokens (q.data is null if there are none). Values are rounded to kv_dtype and
  // query_dtype.
  // Errors: kInvalidArgument (shape; dtype; a finite value that overflows, with layer, array and
  //         head); kFailedPrecondition (order; an earlier error); kResourceExhausted, kIoError.
  Status WriteLayer(LayerId layer, const TensorView& k, const TensorView& v,
                    const TensorView& q = {});

  // Syncs the file and gives it its name.
  // Errors: kFailedPrecondition (layers are missing; finished before); kAlreadyExists; kIoError.
  Status Finish();

 private:
  explicit KvFileWriter(std::unique_ptr<internal::KvFileWriterImpl> impl);

  std::unique_ptr<internal::KvFileWriterImpl> impl_;  // Null only after a move.
};

// Opens the file and imports it: KvFileReader::Open, then Import.
ATTNDB_EXPORT Result<ContextId> ImportKvFile(const DB& db, const std::string& path,
                                             const KvFileImportOptions& options = {});

// Writes a stored context, by name or "#id", to a new file: K in RoPE layout kHalf, no q. Holds one
// layer in memory at a time.
// Errors: kNotFound; kAlreadyExists (`path`); kCorruption (the context is damaged); kIoError.
ATTNDB_EXPORT Status ExportKvFile(const DB& db, std::string_view context, const std::string& path,
                                  const KvFileExportOptions& options = {});

}  // namespace attndb

#endif  // ATTNDB_KV_FILE_H_
