// CRC-32C (Castagnoli): detects accidental changes of stored bytes. Identities are SHA-256.
//
// Threads: pure functions.
// Source:  RFC 3720 (iSCSI) appendix B.4; computed by ISA-L at several GB/s a core.
#ifndef ATTNDB_COMMON_CRC32C_H_
#define ATTNDB_COMMON_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace attndb {

// CRC of A followed by `data`, where `crc` is the CRC of A.
uint32_t Crc32cExtend(uint32_t crc, std::span<const std::byte> data);

inline uint32_t Crc32c(std::span<const std::byte> data) { return Crc32cExtend(0, data); }

}  // namespace attndb

#endif  // ATTNDB_COMMON_CRC32C_H_
