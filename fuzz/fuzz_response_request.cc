#include "fuzz/server_texts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)attndb::fuzz::FuzzResponseRequest({data, size});
  return 0;
}
