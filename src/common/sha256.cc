#include "common/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <limits>

#include "common/check.h"

namespace attndb {
namespace {

unsigned char* Raw(std::byte* data) { return reinterpret_cast<unsigned char*>(data); }
const unsigned char* Raw(const std::byte* data) {
  return reinterpret_cast<const unsigned char*>(data);
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  ATTNDB_CHECK(context_ != nullptr);
  Start();
}

void Sha256::Start() {
  ATTNDB_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::Update(std::span<const std::byte> data) {
  ATTNDB_CHECK(EVP_DigestUpdate(context_.get(), data.data(), data.size()) == 1);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  unsigned int size = 0;
  ATTNDB_CHECK(EVP_DigestFinal_ex(context_.get(), Raw(digest.data()), &size) == 1);
  ATTNDB_CHECK(size == digest.size());
  Start();
  return digest;
}

Sha256Digest Sha256::Of(std::span<const std::byte> data) {
  Sha256 hash;
  hash.Update(data);
  return hash.Finish();
}

Sha256Digest HmacSha256(std::span<const std::byte> key, std::span<const std::byte> data) {
  ATTNDB_CHECK(key.size() <= static_cast<size_t>(std::numeric_limits<int>::max()));
  // A null key means "the previous key" to OpenSSL; an empty one still needs an address.
  static constexpr std::byte kNoKey{0};
  const std::byte* key_data = key.empty() ? &kNoKey : key.data();
  Sha256Digest digest;
  unsigned int size = 0;
  ATTNDB_CHECK(HMAC(EVP_sha256(), key_data, static_cast<int>(key.size()), Raw(data.data()),
                    data.size(), Raw(digest.data()), &size) != nullptr);
  ATTNDB_CHECK(size == digest.size());
  return digest;
}

bool ConstantTimeEqual(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0);
}

Status RandomBytes(std::span<std::byte> out) {
  constexpr size_t kMaxCallBytes = size_t{1} << 30;  // RAND_bytes takes an int.
  while (!out.empty()) {
    const size_t num_bytes = std::min(out.size(), kMaxCallBytes);
    if (RAND_bytes(Raw(out.data()), static_cast<int>(num_bytes)) != 1) {
      return Status::IoError("the system's random source failed");
    }
    out = out.subspan(num_bytes);
  }
  return Status::Ok();
}

}  // namespace attndb
