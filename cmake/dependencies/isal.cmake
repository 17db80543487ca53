# CRC32C at memory speed: crc32_iscsi of ISA-L. Target: ISAL::isal.
attndb_find(ISAL)
