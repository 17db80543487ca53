// Finds the calls of tools in a stored conversation. A reply that calls tools may have no content,
// and no place in the layouts of later prompts.
//
// Limits:  kMaxTurnsBack earlier turns are looked at.
// Threads: stateless.
#ifndef ATTNDB_SERVER_ROUTES_STORED_CALLS_H_
#define ATTNDB_SERVER_ROUTES_STORED_CALLS_H_

#include <cstdint>
#include <string>

#include "attndb/db.h"
#include "attndb/session.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/kept_text.h"

namespace attndb::server {

inline constexpr int kMaxTurnsBack = 1024;
// At least one of so many turns in a row has the note, if all have the same tools.
inline constexpr int kMaxTurnsOfNote = 8;

// Gives replies the places that the turns which ended with them know. `before`: the context that
// the conversation continues. `num_tokens`: those of the conversation. Turns that are gone are left
// out.
void AddStoredCalls(const DB& db, ContextId before, uint64_t num_tokens, TextLayout* text);

// Gives a place to each reply in front of a tool's result that has none yet. The template's own
// text in front of replies shows where the reply begins.
void AddWrittenCalls(const llama::LlamaEngine& engine, const llama::ReplyForm& form,
                     KeptText* kept);

// Returns the tools of a turn, or those of the newest turn before it that has any, as
// ChatOptions::tools. `text`: the turn's layout. Empty: none are known.
std::string ToolsOf(const DB& db, ContextId turn, const TextLayout& text);

// Returns the note of a turn with these tools, which goes on with the session. Empty: the turn
// needs none, as one of the last turns before it has the same.
std::string NoteToStore(const DB& db, const Session& session, const std::string& tools);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_STORED_CALLS_H_
