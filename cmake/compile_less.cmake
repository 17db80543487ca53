# What keeps a build short. Most of a source's time goes into the headers that it includes and the
# templates that it instantiates, so both are shared.
#   attndb_batch(TARGET)       compiles the sources of a library in batches of eight (CMake's unity
#                              build): a third to a fifth of the time. Names in a source's anonymous
#                              namespace must then differ from its neighbours'.
#   attndb_alone(SOURCES...)   leaves sources of the folder out of its batches, because their natural
#                              names are those of a neighbour: 1.4 s each.
#   attndb_test_speed(TARGET)  precompiles GoogleTest for a test program, and optimises less: what
#                              tests spend their time in is the library. -Og compiles in four fifths
#                              of the time of -O1, and in two thirds under ASan.
# ATTNDB_UNITY=OFF compiles each source alone. Without it, scripts/check_alone.py sees that each
# includes what it uses.
option(ATTNDB_UNITY "Compile sources in batches, and with precompiled headers" ON)

function(attndb_batch target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ATTNDB_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

function(attndb_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

function(attndb_test_speed target)
  # At -Og, GCC takes members of temporaries for uninitialised that it sees initialised at -O2.
  set(speed $<$<NOT:$<CONFIG:Debug>>:-Og> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_compile_options(${target} PRIVATE ${speed})
  if(NOT ATTNDB_UNITY)
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC bug 105651 again, which names other warnings where the standard library is precompiled.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  if(NOT TARGET attndb_precompiled_tests)
    set(source ${CMAKE_BINARY_DIR}/precompiled_tests.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() { return 0; }\n")
    add_executable(attndb_precompiled_tests EXCLUDE_FROM_ALL ${source})
    target_link_libraries(attndb_precompiled_tests PRIVATE attndb_warnings GTest::gmock GTest::gtest)
    target_compile_options(attndb_precompiled_tests PRIVATE ${speed})
    target_precompile_headers(attndb_precompiled_tests PRIVATE
      <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional>
      <gmock/gmock.h> <gtest/gtest.h> <limits> <map> <memory> <mutex> <numeric> <optional> <random>
      <set> <span> <string> <string_view> <thread> <utility> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM attndb_precompiled_tests)
endfunction()
