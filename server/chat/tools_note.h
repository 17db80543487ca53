// The tools of a chat, as the note of the context that its turn is stored as. Calls in the stored
// replies are read with these tools.
//
// Form:    JSON: {"attndb_chat": VERSION, "tools": [...]}.
// Threads: stateless.
#ifndef ATTNDB_SERVER_CHAT_TOOLS_NOTE_H_
#define ATTNDB_SERVER_CHAT_TOOLS_NOTE_H_

#include <cstddef>
#include <string>

namespace attndb::server {

inline constexpr size_t kMaxNotedTools = size_t{64} << 10;  // Bytes. 24 tools have about 32 KiB.

// Returns the note. `tools`: a JSON array. Empty: there are no tools, or they are too long.
std::string NoteOfTools(const std::string& tools);
// Returns the JSON array. Empty: the note has none.
std::string ToolsOfNote(const std::string& note);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CHAT_TOOLS_NOTE_H_
