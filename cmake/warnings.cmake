# Warning flags for our own code: link the interface target `attndb_warnings`.
# Without missing-field-initializers: options are given as {.name = "x"}, the rest keeps its default.
add_library(attndb_warnings INTERFACE)
target_compile_options(attndb_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -Wimplicit-fallthrough -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(attndb_warnings INTERFACE -Wthread-safety)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms about `"text" + std::string` (GCC bug 105651).
  target_compile_options(attndb_warnings INTERFACE -Wno-restrict)
endif()
if(ATTNDB_WERROR)
  target_compile_options(attndb_warnings INTERFACE -Werror)
endif()
