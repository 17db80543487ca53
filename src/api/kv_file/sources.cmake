# KV files' part of layer api: included by src/api/CMakeLists.txt, which compiles ATTNDB_KV_FILE_SOURCES.
set(ATTNDB_KV_FILE_SOURCES
  kv_file/cut_text.cc
  kv_file/kv_file_export.cc
  kv_file/kv_file_notes.cc
  kv_file/kv_file_reader.cc
  kv_file/kv_file_writer.cc
  kv_file/kv_schema.cc
  kv_file/layer_spec_json.cc
  kv_file/safetensors_file.cc
  kv_file/safetensors_header.cc)
