#include "fuzz/gguf_head.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)attndb::fuzz::FuzzGguf({data, size});
  return 0;
}
