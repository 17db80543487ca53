// SHA-256, HMAC-SHA-256 and random bytes: identities, reuse keys, store uuids.
//
// Errors:  hashing fails only without memory for OpenSSL's context, which ends the process.
//          RandomBytes: kIoError if the system's random source fails.
// Threads: functions are thread-safe; a Sha256 belongs to one thread at a time.
#ifndef ATTNDB_COMMON_SHA256_H_
#define ATTNDB_COMMON_SHA256_H_

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "attndb/status.h"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX.

namespace attndb {

using Sha256Digest = std::array<std::byte, 32>;

// Hash of a message that comes in pieces.
class Sha256 {
 public:
  Sha256();
  void Update(std::span<const std::byte> data);
  // Digest of all pieces; the object then starts over.
  Sha256Digest Finish();

  static Sha256Digest Of(std::span<const std::byte> data);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  void Start();

  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

Sha256Digest HmacSha256(std::span<const std::byte> key, std::span<const std::byte> data);

// True if both are equal, in a time that depends only on the length: for secrets.
bool ConstantTimeEqual(std::span<const std::byte> a, std::span<const std::byte> b);

// Fills `out` from the system's cryptographic generator.
Status RandomBytes(std::span<std::byte> out);

}  // namespace attndb

#endif  // ATTNDB_COMMON_SHA256_H_
