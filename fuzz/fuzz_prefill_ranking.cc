#include "fuzz/index_forms.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)attndb::fuzz::FuzzPrefillRanking({data, size});
  return 0;
}
