# Included before project(), which would only say that CMAKE_CXX_COMPILER is not set: names what to
# install, and with it all that the library and the command line need.
if(NOT CMAKE_CXX_COMPILER AND NOT CMAKE_TOOLCHAIN_FILE AND NOT DEFINED ENV{CXX})
  find_program(ATTNDB_ANY_CXX NAMES c++ g++ clang++)
  mark_as_advanced(ATTNDB_ANY_CXX)
  if(NOT ATTNDB_ANY_CXX)
    message(FATAL_ERROR
      "attndb is not built: there is no C++ compiler (c++, g++ or clang++; CXX names another).\n"
      "On Debian 12 or newer, as root:\n"
      "  apt-get install g++ libsqlite3-dev libssl-dev libisal-dev nlohmann-json3-dev libcli11-dev\n"
      "For the Python package also python3-dev.")
  endif()
endif()
