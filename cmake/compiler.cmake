# Included before project(), which would only say that CMAKE_CXX_COMPILER is not set: names what to
# install, and with it all that the library and the command line need.
include(${CMAKE_CURRENT_LIST_DIR}/debian_packages.cmake)
if(NOT CMAKE_CXX_COMPILER AND NOT CMAKE_TOOLCHAIN_FILE AND NOT DEFINED ENV{CXX})
  find_program(ATTNDB_ANY_CXX NAMES c++ g++ clang++)
  mark_as_advanced(ATTNDB_ANY_CXX)
  if(NOT ATTNDB_ANY_CXX)
    attndb_debian_packages(attndb_all compiler library cli server)
    attndb_debian_packages(attndb_python python)
    message(FATAL_ERROR
      "attndb is not built: there is no C++ compiler (c++, g++ or clang++; CXX names another).\n"
      "On Debian 12 or newer, as root:\n"
      "  apt-get install ${attndb_all}\n"
      "For the Python package also ${attndb_python}.")
  endif()
endif()
