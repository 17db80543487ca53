#include "fuzz/connection_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)attndb::fuzz::FuzzConnection({data, size});
  return 0;
}
