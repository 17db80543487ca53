# attndb_add_layer(NAME [COLD] SOURCES... [LIBS...])
#   One folder of src/ as an object library `attndb_NAME`; all of them together make libattndb.
#   COLD: compiled with less optimisation (compile_less.cmake).
# attndb_add_test(NAME SOURCES... [LIBS...] [LABELS...] [TIMEOUT seconds] [SHARDS n]
#                 [ALONE layers...] [PLAIN])
#   One test program; links the static library (so it sees the internals), GoogleTest and testing/;
#   with ALONE these layers only, which proves that they need no others. Under AddressSanitizer the
#   library is linked all the same (sanitizers.cmake).
#   PLAIN: not built under AddressSanitizer, since it touches no bytes, threads or hostile input.
#   With SHARDS its tests are dealt to n entries of ctest, NAME_1 to NAME_n, which run side by side.
# attndb_add_isa_tests(NAME [FILTER pattern])
#   A test program of attndb_add_test again, or the tests of it that GoogleTest's pattern chooses,
#   with the kernels of each lesser instruction set forced.
function(attndb_add_layer name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;LIBS" ${ARGN})
  add_library(attndb_${name} OBJECT ${ARG_SOURCES})
  target_include_directories(attndb_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src
                                            PUBLIC ${CMAKE_SOURCE_DIR}/include)
  target_compile_definitions(attndb_${name} PRIVATE ATTNDB_BUILDING_LIBRARY)
  target_link_libraries(attndb_${name} PRIVATE attndb_warnings ${ARG_LIBS})
  set(options "")
  if(ARG_COLD)
    list(APPEND options COLD)
  elseif(name MATCHES "^kernels")  # These use little of the standard library.
    list(APPEND options BARE SIZE 4)  # No job should take 40 s beside three others.
  endif()
  attndb_batch(attndb_${name} ${options})
  if(ATTNDB_SANITIZE AND name MATCHES "^kernels")
    # A third of what instrumented tests take; sanitizers.cmake says why the rest is -O1.
    target_compile_options(attndb_${name} PRIVATE -O2)
  endif()
  set_property(GLOBAL APPEND PROPERTY ATTNDB_LAYERS attndb_${name})
endfunction()

function(attndb_add_test name)
  if(NOT ATTNDB_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "PLAIN" "TIMEOUT;SHARDS" "SOURCES;LIBS;LABELS;ALONE" ${ARGN})
  if(ARG_PLAIN AND ATTNDB_SANITIZE STREQUAL "address")
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  if(ATTNDB_SANITIZE STREQUAL "thread")
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 4")  # What is instrumented takes up to 20 times as long.
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  set(tested attndb_testing attndb_testing_storage attndb_static)
  if(ARG_ALONE AND NOT ATTNDB_SANITIZE STREQUAL "address")
    set(tested ${ARG_ALONE} ISAL::isal OpenSSL::Crypto Threads::Threads)
  endif()
  target_link_libraries(${name} PRIVATE attndb_warnings ${tested} ${ARG_LIBS}
                        GTest::gmock GTest::gtest GTest::gtest_main)
  attndb_test_speed(${name})
  attndb_instrumented_first(${name})
  if(unit IN_LIST ARG_LABELS)
    attndb_unit_test(${name})
  endif()
  if(NOT ARG_SHARDS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
    return()
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    math(EXPR shard_idx "${shard} - 1")
    add_test(NAME ${name}_${shard} COMMAND ${name})
    set_tests_properties(${name}_${shard} PROPERTIES
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard_idx}"
      TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  endforeach()
endfunction()

# Makes programs part of the target `unit_tests`: what `make check` builds.
function(attndb_unit_test)
  if(NOT TARGET unit_tests)
    add_custom_target(unit_tests)
  endif()
  add_dependencies(unit_tests ${ARGN})
endfunction()

function(attndb_add_isa_tests name)
  if(NOT ATTNDB_BUILD_TESTS OR ATTNDB_SANITIZE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "FILTER" "" ${ARGN})
  if(NOT ARG_FILTER)
    set(ARG_FILTER "*")
  endif()
  foreach(isa scalar avx2)
    add_test(NAME ${name}_${isa} COMMAND ${name} --gtest_filter=${ARG_FILTER})
    set_tests_properties(${name}_${isa} PROPERTIES
      ENVIRONMENT ATTNDB_ISA=${isa} TIMEOUT 600 LABELS isa
      FAIL_REGULAR_EXPRESSION "Running 0 tests")  # The pattern is of tests that are no more.
  endforeach()
endfunction()
