// Who holds a lock of flock(2), as the kernel tells it (/proc/locks, proc(5)).
//
// Threads: stateless.
#ifndef ATTNDB_STORAGE_IO_LOCK_HOLDER_H_
#define ATTNDB_STORAGE_IO_LOCK_HOLDER_H_

#include <optional>
#include <string>

namespace attndb::storage {

// "process 1234 (attndb import notes.txt) for 12 s", or "another open store of this process", for
// the open file `fd` that another descriptor has locked, and has touched (futimens(2)) when it did.
// What is shown is the program, its command and that one's first argument at most: what comes
// behind may be a secret. "another process or another open store" where the kernel does not
// tell: no /proc, a file system that numbers files otherwise, a holder in another container.
std::string LockHolderText(int fd);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_IO_LOCK_HOLDER_H_
