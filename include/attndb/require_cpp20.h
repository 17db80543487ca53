// Stops the compiler with one clear line if a C++ program is compiled for an older standard than
// C++20. Otherwise the compiler reports errors inside these headers. c_api.h does not include this
// header: it is for C, and for any C++.
#ifndef ATTNDB_REQUIRE_CPP20_H_
#define ATTNDB_REQUIRE_CPP20_H_

// 201703 is C++17; GCC 10 gives its C++20 a number of its own, between the two.
#if __cplusplus <= 201703L
#error "attndb needs C++20: compile with -std=c++20 or newer"
#endif

#endif  // ATTNDB_REQUIRE_CPP20_H_
