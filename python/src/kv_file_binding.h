// attndb._core.KvFileReader, KvFileWriter, import_kv_file and export_kv_file.
//
// Threads: any. One thread at a time may use a writer; attndb._kv_file ensures this.
#ifndef ATTNDB_PYTHON_SRC_KV_FILE_BINDING_H_
#define ATTNDB_PYTHON_SRC_KV_FILE_BINDING_H_

#include <nanobind/nanobind.h>

namespace attndb::python {

// REQUIRES: BindDb was called.
void BindKvFile(nanobind::module_& module);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_KV_FILE_BINDING_H_
