// Checks arrays and options of a find, and converts q to the layout of stored keys.
//
// Errors:  kInvalidArgument naming what was expected and found.
// Threads: pure functions.
#ifndef ATTNDB_API_FIND_QUERY_H_
#define ATTNDB_API_FIND_QUERY_H_

#include <vector>

#include "attndb/find.h"
#include "attndb/result.h"
#include "attndb/types.h"
#include "find/find_passages.h"

namespace attndb::internal {

Status CheckFindOptions(const FindOptions& options);

// One question for each head of the query. REQUIRES: spec is valid.
Result<std::vector<find::HeadQuestion>> HeadQuestionsOf(const ModelSpec& spec,
                                                        const FindQuery& query);

}  // namespace attndb::internal

#endif  // ATTNDB_API_FIND_QUERY_H_
