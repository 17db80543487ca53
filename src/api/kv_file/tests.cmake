# KV files' tests: included by src/api/CMakeLists.txt.
set(ATTNDB_KV_FILE_TESTS
    kv_file/cut_text_test.cc kv_file/kv_file_format_test.cc kv_file/kv_file_hostile_test.cc kv_file/kv_file_test.cc
    kv_file/kv_file_notes_test.cc kv_file/kv_schema_test.cc
    kv_file/layer_spec_json_test.cc kv_file/safetensors_file_test.cc
    kv_file/safetensors_header_test.cc)
