// Tells which parts of a measured plan ran. The figures of a fallback must not stand under the
// plan's name.
//
// Threads: stateless.
#ifndef ATTNDB_BENCH_WHAT_RAN_H_
#define ATTNDB_BENCH_WHAT_RAN_H_

#include <string>

#include "attndb/stats.h"

namespace attndb::bench {

// Plan text of what ran: that of the first layer, and those of layers where it is another.
std::string RanText(const Explain& explain);

// Names an index, planes or means that the plan asks for and that no layer reads, with the reason:
// they are not built, or can't be. Empty: each of them is read for some tokens at least. Layers
// with a sliding window don't count, as the plan does not apply to them.
std::string MissingText(const Explain& explain);

// Whether something else ran in the place of the plan, or of a part of it, for all tokens.
bool IsReplaced(const Explain& explain);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_WHAT_RAN_H_
