# What keeps a build short. Most of a source's time goes into the headers that it includes and the
# templates that it instantiates, so sources share both.
#   attndb_batch(TARGET [COLD] [BARE] [SIZE n])
#                              compiles the sources of a library in batches of eight or n, behind
#                              precompiled headers of the standard library: a fifth of the time. Names
#                              in a source's anonymous namespace must then differ from its
#                              neighbours'. CMake's own unity builds are not used: they include
#                              absolute paths, so ccache has to preprocess each batch again in a
#                              checkout in another folder.
#                              COLD: with -O1 in a release build, which takes three quarters of the time
#                              of -O3. For code whose time is spent in what it calls: files, SQLite,
#                              kernels, the engine.
#                              BARE: without precompiled headers.
#   attndb_alone(SOURCES...)   leaves sources of the folder out of its batches, because their natural
#                              names are those of a neighbour.
#   attndb_test_speed(TARGET)  precompiles GoogleTest for a test program, and optimises less: what
#                              tests spend their time in is the library. -Og compiles in four fifths
#                              of the time of -O1, and in two thirds under ASan.
# ATTNDB_UNITY=OFF compiles each source alone. Without it, scripts/check_alone.py sees that each
# includes what it uses.
option(ATTNDB_UNITY "Compile sources in batches, and with precompiled headers" ON)
set(attndb_standard_headers
  <algorithm> <array> <atomic> <cmath> <cstddef> <cstdint> <cstring> <functional> <limits> <map>
  <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view> <utility> <vector>)

function(attndb_batch target)
  cmake_parse_arguments(ARG "COLD;BARE" "SIZE" "" ${ARGN})
  if(NOT ARG_SIZE)
    set(ARG_SIZE 8)
  endif()
  set(precompiled attndb_precompiled)
  set(speed "")
  if(ARG_COLD)
    set(precompiled attndb_precompiled_cold)
    set(speed $<$<CONFIG:Release>:-O1>)
  endif()
  target_compile_options(${target} PRIVATE ${speed})
  set_target_properties(${target} PROPERTIES ATTNDB_COLD "${ARG_COLD}")
  if(NOT ATTNDB_UNITY)
    return()
  endif()
  if(NOT ARG_BARE)
    attndb_precompile(${target} ${precompiled} "${speed}")
  endif()
  # At the end of the folder, when attndb_alone() has been called.
  cmake_language(EVAL CODE "cmake_language(DEFER CALL attndb_make_batches ${target} ${ARG_SIZE})")
endfunction()

function(attndb_alone)
  set_property(SOURCE ${ARGN} PROPERTY ATTNDB_ALONE ON)
endfunction()

# Replaces the sources of a target by batches: TARGET_batch_0.cc and so on, in the build folder.
function(attndb_make_batches target size)
  get_target_property(sources ${target} SOURCES)
  set(compiled "")
  set(batched "")
  foreach(source IN LISTS sources)
    get_property(alone SOURCE ${source} PROPERTY ATTNDB_ALONE)
    if(alone)
      list(APPEND compiled ${source})
    else()
      list(APPEND batched ${source})
    endif()
  endforeach()
  # __FILE__ of a batch's source begins with the folder of the batch and the way up from there.
  file(RELATIVE_PATH up ${CMAKE_CURRENT_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  target_compile_options(${target} PRIVATE
                         -fmacro-prefix-map=${CMAKE_CURRENT_BINARY_DIR}/${up}=)
  set(batch_idx 0)
  while(batched)
    list(SUBLIST batched 0 ${size} batch)
    list(REMOVE_ITEM batched ${batch})
    set(text "")
    foreach(source IN LISTS batch)
      get_property(definitions SOURCE ${source} PROPERTY COMPILE_DEFINITIONS)
      get_property(options SOURCE ${source} PROPERTY COMPILE_OPTIONS)
      if(definitions OR options)
        message(FATAL_ERROR "${source} has flags of its own: attndb_alone(${source}) keeps them")
      endif()
      cmake_path(ABSOLUTE_PATH source)
      file(RELATIVE_PATH path ${CMAKE_CURRENT_BINARY_DIR} ${source})
      string(APPEND text "#include \"${path}\"\n")
    endforeach()
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_batch_${batch_idx}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND compiled ${file})
    math(EXPR batch_idx "${batch_idx} + 1")
  endwhile()
  set_target_properties(${target} PROPERTIES SOURCES "${compiled}")
endfunction()

# The headers are precompiled once for each level of optimisation: GCC wants these to be equal.
function(attndb_precompile target precompiled speed)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC bug 105651 again, which names other warnings where the standard library is precompiled.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  if(NOT TARGET ${precompiled})
    set(source ${CMAKE_BINARY_DIR}/${precompiled}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Only the precompiled header of this target is used.\n")
    add_library(${precompiled} OBJECT EXCLUDE_FROM_ALL ${source})
    target_link_libraries(${precompiled} PRIVATE attndb_warnings)
    target_compile_options(${precompiled} PRIVATE ${speed})
    target_precompile_headers(${precompiled} PRIVATE ${attndb_standard_headers})
    attndb_precompile_here(${precompiled})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
endfunction()

# Each checkout precompiles its headers itself. GCC's file depends on the folder that it was made in:
# with one from another folder, GCC 12 crashed. ccache tells such files apart by a checksum that we
# write: the list of headers. ccache compares the options and the headers themselves anyway, of each
# source that uses them.
function(attndb_precompile_here precompiled)
  set_target_properties(${precompiled} PROPERTIES CXX_COMPILER_LAUNCHER "")
  get_target_property(headers ${precompiled} PRECOMPILE_HEADERS)
  file(CONFIGURE CONTENT "${headers}\n" @ONLY
       OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${precompiled}.dir/cmake_pch.hxx.gch.sum)
endfunction()

function(attndb_test_speed target)
  attndb_is_test(${target})
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
    attndb_is_test(attndb_precompiled_tests)
    target_link_libraries(attndb_precompiled_tests PRIVATE attndb_warnings GTest::gmock GTest::gtest)
    target_compile_options(attndb_precompiled_tests PRIVATE ${speed})
    target_precompile_headers(attndb_precompiled_tests PRIVATE
      <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional>
      <gmock/gmock.h> <gtest/gtest.h> <limits> <map> <memory> <mutex> <numeric> <optional> <random>
      <set> <span> <string> <string_view> <thread> <utility> <vector>)
    attndb_precompile_here(attndb_precompiled_tests)
  endif()
  target_precompile_headers(${target} REUSE_FROM attndb_precompiled_tests)
endfunction()
