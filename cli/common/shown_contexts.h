// Contexts as a person looks for them: a conversation once, by its newest turn, and by its title.
//
// Threads: pure functions.
#ifndef ATTNDB_CLI_COMMON_SHOWN_CONTEXTS_H_
#define ATTNDB_CLI_COMMON_SHOWN_CONTEXTS_H_

#include <string>
#include <vector>

#include "attndb/stats.h"

namespace attndb::cli {

// Whether a server gave the name: "turn-8d9a...".
bool IsTurnName(const std::string& name);

// The name that a person gave, or "#id" and the title, or NameOf. With "#id" commands find it.
std::string ShownName(const ContextInfo& context);

// The contexts without the earlier turns of conversations: a context that exactly one other context
// continues is left out, unless a person gave it a name.
std::vector<ContextInfo> NewestTurns(std::vector<ContextInfo> contexts);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_SHOWN_CONTEXTS_H_
