// A context's title and note in the metadata of a KV file. Older builds keep their keys as ordinary
// notes.
//
// Threads: pure functions.
// Source:  docs/formats/import.md, "note.attndb_title", "note.attndb_note_{i}".
#ifndef ATTNDB_API_KV_FILE_KV_FILE_NOTES_H_
#define ATTNDB_API_KV_FILE_KV_FILE_NOTES_H_

#include <map>
#include <string>
#include <string_view>

namespace attndb::internal {

// Keys with this prefix have a meaning to attndb.
inline constexpr std::string_view kOwnNotePrefix = "note.attndb_";
inline constexpr std::string_view kTitleKey = "note.attndb_title";
// The number of the piece follows, from 0.
inline constexpr std::string_view kNoteKey = "note.attndb_note_";

void PutTitleAndNote(std::string_view title, std::string_view note,
                     std::map<std::string, std::string>* metadata);

// A title or a note that this build can't read counts as none.
std::string TitleIn(const std::map<std::string, std::string>& metadata);
std::string NoteIn(const std::map<std::string, std::string>& metadata);

}  // namespace attndb::internal

#endif  // ATTNDB_API_KV_FILE_KV_FILE_NOTES_H_
