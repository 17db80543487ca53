# The catalog's tests: included by src/store/CMakeLists.txt.
set(ATTNDB_CATALOG_TESTS
    catalog/catalog_companions_test.cc catalog/catalog_contexts_test.cc catalog/catalog_core_test.cc
    catalog/catalog_cost_test.cc catalog/catalog_crash_test.cc catalog/catalog_damage_test.cc
    catalog/catalog_eviction_test.cc catalog/catalog_owners_test.cc catalog/catalog_prefixes_test.cc
    catalog/catalog_property_test.cc catalog/catalog_publish_test.cc catalog/catalog_rows_test.cc
    catalog/catalog_segments_test.cc catalog/catalog_settling_test.cc catalog/catalog_test.cc
    catalog/catalog_test_util.cc catalog/catalog_verify_test.cc catalog/catalog_wishes_test.cc catalog/catalog_writes_test.cc
    catalog/checked_vfs_test.cc catalog/context_changes_test.cc catalog/context_notes_test.cc catalog/text_layouts_test.cc catalog/counters_test.cc
    catalog/cut_bytes_test.cc catalog/cuts_test.cc catalog/forked_files_test.cc
    catalog/lacking_companions_test.cc catalog/mending_test.cc catalog/model_identity_test.cc catalog/model_sources_test.cc catalog/names_test.cc
    catalog/prefix_index_test.cc catalog/prefix_search_test.cc catalog/raw_file_test.cc
    catalog/schema_test.cc
    catalog/sqlite_fork_test.cc catalog/sqlite_test.cc catalog/tenant_numbers_test.cc catalog/ttl_test.cc
    catalog/use_dates_test.cc catalog/wal_check_test.cc)
# A program of its own, which sanitized builds leave out.
attndb_add_test(store_catalog_speed_test
  SOURCES catalog/catalog_speed_test.cc catalog/catalog_test_util.cc
  LIBS SQLite::SQLite3 LABELS speed)
