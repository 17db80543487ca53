# CRC32C at memory speed: crc32_iscsi of ISA-L (Debian: libisal-dev). Target: attndb_isal.
find_path(ISAL_INCLUDE_DIR isa-l/crc.h REQUIRED)
find_library(ISAL_LIBRARY isal REQUIRED)
add_library(attndb_isal INTERFACE)
target_include_directories(attndb_isal SYSTEM INTERFACE ${ISAL_INCLUDE_DIR})
target_link_libraries(attndb_isal INTERFACE ${ISAL_LIBRARY})
