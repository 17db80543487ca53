# Options and project-wide settings.
option(ATTNDB_BUILD_TESTS "Build the tests" ON)
option(ATTNDB_BUILD_BENCH "Build the benchmarks" ON)
option(ATTNDB_BUILD_CLI "Build the command-line client" ON)
option(ATTNDB_BUILD_EXAMPLES "Build the examples" ON)
set(ATTNDB_BUILD_LLAMA ON CACHE STRING
    "Build the llama.cpp adapter: ON (needs an installed llama.cpp), OFF, AUTO (if there is one)")
option(ATTNDB_BUILD_SERVER "Build `attndb serve`, where the command line and the adapter are built" ON)
option(ATTNDB_BUILD_PYTHON "Build the Python package's module: what `pip install .` does" OFF)
set(ATTNDB_KERNELS all CACHE STRING
    "Kernels to build: all, or native: this machine's instruction sets and the portable ones")
set(ATTNDB_PREBUILT "" CACHE PATH
    "Of the Python package: an installed attndb to take the library and the command line from")
option(ATTNDB_WERROR "Treat warnings as errors" ON)
set(ATTNDB_SANITIZE "" CACHE STRING "Sanitizer: empty, address (with undefined) or thread")
option(ATTNDB_FUZZ "Build the fuzz targets (clang)" OFF)
option(ATTNDB_COVERAGE "Instrument for coverage" OFF)
option(ATTNDB_ROOMS "Build the probe of the rooms that a call enters" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# __FILE__ begins at the source folder: no object code depends on where that is, so that checkouts,
# and `pip install` with its copy of the sources, share what ccache has.
add_compile_options(-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
# GCC collects its garbage when its heap has grown to 128 MB, which a precompiled header fills alone.
# With half a gigabyte a source takes a tenth less time.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(--param=ggc-min-heapsize=524288)
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

# Checkouts in other folders share what was compiled. The compiler tells what a source includes, so
# that ccache need not preprocess it first. Without the sloppiness, ccache keeps nothing that has a
# precompiled header. Of a precompiled header it reads the checksum alone (compile_less.cmake).
find_program(ATTNDB_CCACHE ccache)
if(ATTNDB_CCACHE)
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
               CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
               ${ATTNDB_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
