// All of attndb's C++ interface. Start with db.h and session.h; c_api.h is the same for C.
#ifndef ATTNDB_ATTNDB_H_
#define ATTNDB_ATTNDB_H_

#include "attndb/context_name.h"   // IWYU pragma: export
#include "attndb/context_title.h"  // IWYU pragma: export
#include "attndb/custom_index.h"   // IWYU pragma: export
#include "attndb/db.h"             // IWYU pragma: export
#include "attndb/dtype.h"          // IWYU pragma: export
#include "attndb/find.h"           // IWYU pragma: export
#include "attndb/fingerprint.h"    // IWYU pragma: export
#include "attndb/kv_file.h"        // IWYU pragma: export
#include "attndb/num_cores.h"      // IWYU pragma: export
#include "attndb/options.h"        // IWYU pragma: export
#include "attndb/result.h"         // IWYU pragma: export
#include "attndb/session.h"        // IWYU pragma: export
#include "attndb/session_batch.h"  // IWYU pragma: export
#include "attndb/stats.h"          // IWYU pragma: export
#include "attndb/status.h"         // IWYU pragma: export
#include "attndb/tensor_view.h"    // IWYU pragma: export
#include "attndb/tiers.h"          // IWYU pragma: export
#include "attndb/types.h"          // IWYU pragma: export
#include "attndb/units.h"          // IWYU pragma: export
#include "attndb/version.h"        // IWYU pragma: export

#endif  // ATTNDB_ATTNDB_H_
