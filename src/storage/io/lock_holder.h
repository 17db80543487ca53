// Names the holder of a flock(2) lock, from the kernel's data (/proc/locks, proc(5)).
//
// Threads: stateless.
#ifndef ATTNDB_STORAGE_IO_LOCK_HOLDER_H_
#define ATTNDB_STORAGE_IO_LOCK_HOLDER_H_

#include <optional>
#include <string>

namespace attndb::storage {

// Describes the holder of the lock on the open file `fd`, which the holder touched (futimens(2))
// when it took the lock: "process 1234 (attndb import notes.txt) for 12 s", or "another open store
// of this process". Shows at most the program, its command and the command's first argument: later
// arguments may be secret. Returns "another process or another open store" if the kernel does not
// tell: no /proc, a file system that numbers files otherwise, a holder in another container.
std::string LockHolderText(int fd);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_IO_LOCK_HOLDER_H_
