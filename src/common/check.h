// Checks conditions that only a bug in attndb can break. A failed check prints the place and the
// condition and ends the process: continuing could return a wrong answer.
//
// ATTNDB_CHECK is on in every build. ATTNDB_DCHECK is for kernels' inner preconditions and is off
// in release builds.
#ifndef ATTNDB_COMMON_CHECK_H_
#define ATTNDB_COMMON_CHECK_H_

namespace attndb::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace attndb::internal

#define ATTNDB_CHECK(condition)                                        \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::attndb::internal::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)

#ifdef NDEBUG
#define ATTNDB_DCHECK(condition) \
  do {                           \
  } while (false)
#else
#define ATTNDB_DCHECK(condition) ATTNDB_CHECK(condition)
#endif

#endif  // ATTNDB_COMMON_CHECK_H_
