// Product codes: product_codes.h.
#include "kernels/kernel_table.h"
#include "kernels/nearest-inl.h"
#include "kernels/product_codes-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {

extern constexpr ProductCodeKernels kProductCodes = {.build_lookup_tables = BuildLookupTables,
                                                     .scan_product_codes = ScanProductCodes,
                                                     .weigh_product_codes = WeighProductCodes,
                                                     .find_nearest = FindNearest,
                                                     .lower_distances = LowerDistances};

}  // namespace attndb::kernels::ATTNDB_TARGET
