// A SQLite VFS that checksums every page of a database file: SQLite itself has no page checksums,
// so that a flipped bit in an index would hide a row, silently.
//
// Layout:  pages of 4096 bytes; the last 8, which SQLite leaves to us ("reserved bytes"), hold the
//          page's number and the CRC-32C of all bytes before it, both little-endian uint32. A page
//          in a wrong place is found as well as a changed one. A plain sqlite3 can read the file.
// Scope:   the database file. Journals pass through: a WAL has checksums of its own.
// Errors:  reading a page that is not as it was written fails with SQLITE_IOERR_DATA;
//          kDamagedPageOp tells which.
// Threads: the functions are thread-safe; a file is as its connection.
// Source:  the interface is https://www.sqlite.org/vfs.html; the idea is SQLite's cksumvfs, which
//          checks no page numbers and trusts the header to say whether there are checksums.
#ifndef ATTNDB_STORE_CATALOG_CHECKED_VFS_H_
#define ATTNDB_STORE_CATALOG_CHECKED_VFS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace attndb::store {

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kReservedBytes = 8;

using PageBytes = std::span<std::byte, kPageBytes>;
using ConstPageBytes = std::span<const std::byte, kPageBytes>;

// The VFS's name, for sqlite3_open_v2; registers it with SQLite at the first call. Null if SQLite
// has no VFS to stand upon.
const char* CheckedVfsName();

// Operation of sqlite3_file_control on "main": argument int64_t*; gives the number of the first
// page that was found damaged since the file was opened, 0 if none was. Page 1 is the first.
inline constexpr int kDamagedPageOp = 0x61747401;

// Writes number and checksum into the page's last bytes.
void SealPage(uint32_t page_number, PageBytes page);

// Empty, or what is wrong with the page: "holds page 7", "checksum ..., expected ...".
std::string PageDamage(uint32_t page_number, ConstPageBytes page);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CHECKED_VFS_H_
