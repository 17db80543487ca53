// The canonical encoding of a ModelSpec: what "the same model" means to a store.
//
// Two specs are one model if their encodings are equal: defaults are resolved first (rope_dims 0 is
// head_dim, scale 0 is 1/sqrt(head_dim)), and RoPE layout kInterleaved counts as kHalf, because
// keys are stored as kHalf whatever the engine uses.
//
// Layout:  docs/formats/catalog.md, "Model encoding". Never change it: identities hang on it.
// Errors:  decoding: kCorruption. All lengths are checked: the bytes may be anyone's.
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
  // Hash of the bytes without the fingerprint: DeclareEqual may join models in which it is equal.
  Sha256Digest layout{};
};

// REQUIRES: spec.Validate() is Ok.
EncodedModel EncodeModel(const ModelSpec& spec);

// The spec in canonical form: EncodeModel of it gives `bytes` again.
Result<ModelSpec> DecodeModel(std::span<const std::byte> bytes);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_MODEL_IDENTITY_H_
