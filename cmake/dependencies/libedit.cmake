# Editing of the lines of a chat, and their history. Optional. Target: LibEdit::LibEdit.
find_package(LibEdit QUIET)
if(NOT LibEdit_FOUND)
  attndb_debian_packages(packages LibEdit)
  message(STATUS "lines of `attndb chat` are not edited: no libedit (Debian: ${packages})")
endif()
