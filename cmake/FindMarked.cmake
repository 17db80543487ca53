# marked, which reads Markdown in the server's page; it has no CMake package of its own.
# Variable: MARKED_SCRIPT, a script for browsers that is built into the server.
find_file(MARKED_SCRIPT NAMES marked.umd.min.js PATHS /usr/share/javascript/marked
          PATH_SUFFIXES ../share/javascript/marked)
mark_as_advanced(MARKED_SCRIPT)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Marked REQUIRED_VARS MARKED_SCRIPT)
