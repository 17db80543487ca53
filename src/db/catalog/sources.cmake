# The catalog's part of layer db: included by src/db/CMakeLists.txt, which compiles ATTNDB_CATALOG_SOURCES.
set(ATTNDB_CATALOG_SOURCES
  catalog/catalog.cc
  catalog/catalog_contexts.cc
  catalog/catalog_prefix.cc
  catalog/catalog_publish.cc
  catalog/catalog_rows.cc
  catalog/catalog_segments.cc
  catalog/catalog_verify.cc
  catalog/checked_vfs.cc
  catalog/context_changes.cc
  catalog/model_identity.cc
  catalog/names.cc
  catalog/prefix_index.cc
  catalog/prefix_search.cc
  catalog/schema.cc
  catalog/sqlite.cc
  catalog/wal_check.cc)
