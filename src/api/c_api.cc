// The parts of the C ABI that need no store: versions, errors, released memory, model specs.
#include <cstdint>
#include <cstdlib>

#include "api/c_api_call.h"
#include "api/c_api_convert.h"
#include "attndb/c_api.h"
#include "attndb/result.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "attndb/version.h"

using attndb::ModelSpec;
using attndb::Status;
using attndb::StatusCode;
using attndb::internal::Call;
using attndb::internal::NotNull;
using attndb::internal::ThreadsLastError;
using attndb::internal::ToModelSpec;

extern "C" {

const char* attndb_version(void) { return attndb::Version(); }
const char* attndb_kernel_isa(void) { return attndb::KernelIsa(); }

const char* attndb_code_name(int32_t code) {
  if (code < ATTNDB_OK || code > ATTNDB_OTHER_MODEL) return "unknown";
  return attndb::StatusCodeName(static_cast<StatusCode>(code)).data();  // Literals: terminated.
}

const char* attndb_last_error(void) { return ThreadsLastError().message.c_str(); }
attndb_code attndb_last_error_code(void) { return ThreadsLastError().code; }

void attndb_free(void* memory) { std::free(memory); }

attndb_code attndb_spec_validate(const attndb_model_spec* spec) {
  return Call([&]() -> Status {
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec converted, ToModelSpec(spec));
    return converted.Validate();
  });
}

attndb_code attndb_spec_kv_bytes_per_token(const attndb_model_spec* spec, uint64_t* bytes) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(bytes, "bytes"));
    ATTNDB_ASSIGN_OR_RETURN(const ModelSpec converted, ToModelSpec(spec));
    ATTNDB_RETURN_IF_ERROR(converted.Validate());
    *bytes = converted.KvBytesPerToken();
    return Status();
  });
}

}  // extern "C"
