// Whether the process runs under AddressSanitizer.
//
// Sources of tests are not instrumented under it (cmake/sanitizers.cmake), so no macro tells them.
// Threads: safe.
#ifndef ATTNDB_TESTING_SANITIZERS_H_
#define ATTNDB_TESTING_SANITIZERS_H_

extern "C" void __asan_init() __attribute__((weak));  // Null unless the runtime is linked.

namespace attndb::test {

inline bool HasAddressSanitizer() { return __asan_init != nullptr; }

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_SANITIZERS_H_
