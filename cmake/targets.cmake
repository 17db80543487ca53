# attndb_add_layer(NAME SOURCES... [LIBS...])
#   One folder of src/ as an object library `attndb_NAME`; all of them together make libattndb.
# attndb_add_test(NAME SOURCE... [LIBS...] [LABELS...] [TIMEOUT seconds])
#   One test program; links the static library (so it sees the internals), GoogleTest and testing/.
# attndb_add_isa_tests(NAME)
#   A test program of attndb_add_test again, with the kernels of each lesser instruction set forced.
function(attndb_add_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(attndb_${name} OBJECT ${ARG_SOURCES})
  target_include_directories(attndb_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src
                                            PUBLIC ${CMAKE_SOURCE_DIR}/include)
  target_compile_definitions(attndb_${name} PRIVATE ATTNDB_BUILDING_LIBRARY)
  target_link_libraries(attndb_${name} PRIVATE attndb_warnings ${ARG_LIBS})
  set_property(GLOBAL APPEND PROPERTY ATTNDB_LAYERS attndb_${name})
endfunction()

function(attndb_add_test name)
  if(NOT ATTNDB_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE attndb_warnings attndb_static attndb_testing ${ARG_LIBS}
                        GTest::gmock GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

function(attndb_add_isa_tests name)
  if(NOT ATTNDB_BUILD_TESTS OR ATTNDB_SANITIZE)
    return()
  endif()
  get_test_property(${name} TIMEOUT timeout)
  foreach(isa scalar avx2)
    add_test(NAME ${name}_${isa} COMMAND ${name})
    set_tests_properties(${name}_${isa} PROPERTIES
      ENVIRONMENT ATTNDB_ISA=${isa} TIMEOUT ${timeout} LABELS unit)
  endforeach()
endfunction()
