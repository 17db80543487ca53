// A SQLite VFS that checksums every page of a database file. SQLite itself has no page checksums: a
// flipped bit in an index would silently hide a row.
//
// Layout:  pages of 4096 bytes. SQLite leaves the last 8 bytes to us ("reserved bytes"). They hold
//          the page's number and the CRC-32C of all bytes before it, both little-endian uint32. The
//          check finds a changed page and a page in a wrong place. A plain sqlite3 can read the
//          file.
// Scope:   the database file. Journals pass through: a WAL has checksums of its own.
// Errors:  reading a damaged page fails with SQLITE_IOERR_DATA; kDamagedPageOp tells which page it
//          is.
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

// Returns the VFS's name, for sqlite3_open_v2. Registers the VFS with SQLite at the first call.
// Null if SQLite has no VFS to build on.
const char* CheckedVfsName();

// An operation of sqlite3_file_control on "main" with an int64_t* argument. Returns the number of
// the first page that was found damaged since the file was opened, or 0. Page 1 is the first.
inline constexpr int kDamagedPageOp = 0x61747401;

// Writes number and checksum into the page's last bytes.
void SealPage(uint32_t page_number, PageBytes page);

// Empty, or the damage of the page: "holds page 7", "checksum ..., expected ...".
std::string PageDamage(uint32_t page_number, ConstPageBytes page);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CHECKED_VFS_H_
