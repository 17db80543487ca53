#include "store/catalog/context_notes.h"

#include <cstddef>
#include <span>

#include "attndb/context_title.h"
#include "attndb/options.h"
#include "attndb/units.h"

namespace attndb::store {

Status CheckTitleAndNote(std::string_view title, std::string_view note) {
  ATTNDB_RETURN_IF_ERROR(CheckContextTitle(title));
  if (note.size() <= StoreOptions::kMaxNoteBytes) return Status::Ok();
  return Status::InvalidArgument("note has " + Counted(note.size(), "byte") +
                                 ", expected at most " + FormatCount(StoreOptions::kMaxNoteBytes));
}

Status SetTitleAndNote(SqliteDatabase* database, ContextId context, std::string_view title,
                       std::string_view note) {
  if (!title.empty()) {
    ATTNDB_RETURN_IF_ERROR(
        database->Run("INSERT INTO context_titles(context, title) VALUES(?, ?) "
                      "ON CONFLICT(context) DO UPDATE SET title = excluded.title",
                      context, title));
  }
  if (note.empty()) return Status::Ok();
  return database->Run(
      "INSERT INTO context_notes(context, note) VALUES(?, ?) "
      "ON CONFLICT(context) DO UPDATE SET note = excluded.note",
      context, std::as_bytes(std::span(note)));
}

Status TakeTitleAndNote(SqliteDatabase* database, ContextId to, ContextId from) {
  ATTNDB_RETURN_IF_ERROR(
      database->Run("INSERT OR IGNORE INTO context_titles(context, title) "
                    "SELECT ?, title FROM context_titles WHERE context = ?",
                    to, from));
  return database->Run(
      "INSERT OR IGNORE INTO context_notes(context, note) "
      "SELECT ?, note FROM context_notes WHERE context = ?",
      to, from);
}

Status SetContinued(SqliteDatabase* database, ContextId context, ContextId earlier) {
  return database->Run("INSERT INTO continuations(context, continues) VALUES(?, ?)", context,
                       earlier);
}

Status PassOnContinued(SqliteDatabase* database, ContextId context) {
  ATTNDB_RETURN_IF_ERROR(
      database->Run("UPDATE continuations SET continues = "
                    "(SELECT continues FROM continuations WHERE context = ?1) WHERE continues = ?1 "
                    "AND EXISTS(SELECT 1 FROM continuations WHERE context = ?1)",
                    context));
  return database->Run("DELETE FROM continuations WHERE continues = ?", context);
}

Result<std::string> TitleOfContext(SqliteDatabase* database, ContextId context) {
  Query query = database->Select("SELECT title FROM context_titles WHERE context = ?", context);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found || !CheckContextTitle(query.Text(0)).ok()) return std::string();
  return std::string(query.Text(0));
}

Result<std::string> NoteOfContext(SqliteDatabase* database, ContextId context) {
  Query query =
      database->Select("SELECT note FROM context_notes WHERE context = ? AND length(note) <= ?",
                       context, StoreOptions::kMaxNoteBytes);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return std::string();
  const std::span<const std::byte> note = query.Blob(0);
  return std::string(reinterpret_cast<const char*>(note.data()), note.size());
}

Result<ContextNumber> ContinuedBy(SqliteDatabase* database, ContextId context) {
  Query query = database->Select(
      "SELECT n.number FROM continuations r JOIN context_numbers n ON n.context = r.continues "
      "JOIN contexts c ON c.id = r.context AND c.tenant = n.tenant WHERE r.context = ?",
      context);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  return found ? static_cast<ContextNumber>(query.Int(0)) : ContextNumber::kNone;
}

Status ViewNoNotes(SqliteDatabase* database) {
  return database->Execute(
      "CREATE TEMP VIEW context_titles AS\n"
      "  SELECT 0 AS context, '' AS title WHERE 0;\n"
      "CREATE TEMP VIEW context_notes AS\n"
      "  SELECT 0 AS context, x'' AS note WHERE 0;\n"
      "CREATE TEMP VIEW continuations AS\n"
      "  SELECT 0 AS context, 0 AS continues WHERE 0");
}

}  // namespace attndb::store
