// The canonical encoding of a ModelSpec: it defines "the same model" for a store.
//
// Two specs are one model if their encodings are equal. Defaults are resolved first (rope_dims 0 is
// head_dim, scale 0 is 1/sqrt(head_dim)). RoPE layout kInterleaved counts as kHalf, because keys
// are stored as kHalf, whichever layout the engine uses.
//
// Layout:  docs/formats/catalog.md, "Model encoding". Never change it: identities depend on it.
// Errors:  decoding: kCorruption. Checks all lengths: the bytes may come from anyone.
// Threads: pure functions.
#ifndef ATTNDB_STORE_CATALOG_MODEL_IDENTITY_H_
#define ATTNDB_STORE_CATALOG_MODEL_IDENTITY_H_

#include <cstddef>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/sha256.h"

namespace attndb::store {

struct EncodedModel {
  std::vector<std::byte> bytes;
  Sha256Digest identity{};  // Hash of all bytes.
  // Hash of the bytes without the fingerprint: DeclareEqual may join models with an equal hash.
  Sha256Digest layout{};
};

// REQUIRES: spec.Validate() is Ok.
EncodedModel EncodeModel(const ModelSpec& spec);

// Returns the spec in canonical form: EncodeModel of the result gives `bytes` again.
Result<ModelSpec> DecodeModel(std::span<const std::byte> bytes);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_MODEL_IDENTITY_H_
