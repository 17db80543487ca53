// The schema of a KV file over safetensors: docs/formats/import.md.
//
// Errors:  kInvalidArgument naming the key or tensor, what is expected and what was found;
//          kUnsupported: a newer version, keys that are not rotated yet.
// Threads: pure functions.
#ifndef ATTNDB_API_KV_FILE_KV_SCHEMA_H_
#define ATTNDB_API_KV_FILE_KV_SCHEMA_H_

#include <cstdint>
#include <vector>

#include "api/kv_file/safetensors_header.h"
#include "attndb/dtype.h"
#include "attndb/kv_file.h"
#include "attndb/result.h"

namespace attndb::internal {

// One array of [num_heads, num_rows, dim].
struct KvTensor {
  SafetensorsEntry entry;
  DType dtype = DType::kFloat32;
  uint32_t num_heads = 0;
  uint64_t num_rows = 0;
  uint32_t dim = 0;
};

struct KvFileLayer {
  KvTensor k;
  KvTensor v;
  KvTensor q;  // num_rows is 0 if there is none.
};

struct KvSchema {
  KvFileContents contents;  // Contents of the file, without the tokens.
  uint64_t num_tokens = 0;
  SafetensorsEntry tokens;          // I32 or I64.
  std::vector<KvFileLayer> layers;  // One for each of contents.layers.
};

// Returns the content of a header, after checking its entries against each other.
Result<KvSchema> ParseKvSchema(const SafetensorsHeader& header);

// Returns the header of a file with these contents, whose `layers` are filled in. Its tensors are
// the tokens, then k, v and q of each layer.
// Errors: kInvalidArgument: those of ParseKvSchema.
Result<SafetensorsHeader> FormatKvSchema(const KvFileContents& contents);

}  // namespace attndb::internal

#endif  // ATTNDB_API_KV_FILE_KV_SCHEMA_H_
