#include "store/catalog/context_notes.h"

#include <cstddef>
#include <span>

#include "attndb/context_title.h"
#include "attndb/options.h"
#include "attndb/units.h"

namespace attndb::store {
namespace {

// A note that goes with its context is counted off before: later nothing tells its tenant. A sum
// that began too low after damage stays at 0 or above.
constexpr const char* kNoteTriggers =
    "CREATE TEMP TABLE note_uses(\n"
    "  tenant INTEGER PRIMARY KEY, note_bytes INTEGER NOT NULL) STRICT;\n"
    "CREATE TEMP TRIGGER count_note AFTER INSERT ON main.context_notes BEGIN\n"
    "  INSERT OR IGNORE INTO note_uses(tenant, note_bytes)\n"
    "    SELECT tenant, 0 FROM contexts WHERE id = new.context;\n"
    "  UPDATE note_uses SET note_bytes = note_bytes + length(new.note)\n"
    "    WHERE tenant = (SELECT tenant FROM contexts WHERE id = new.context);\n"
    "END;\n"
    "CREATE TEMP TRIGGER count_other_note AFTER UPDATE OF note ON main.context_notes BEGIN\n"
    "  UPDATE note_uses\n"
    "    SET note_bytes = max(0, note_bytes + length(new.note) - length(old.note))\n"
    "    WHERE tenant = (SELECT tenant FROM contexts WHERE id = new.context);\n"
    "END;\n"
    "CREATE TEMP TRIGGER count_off_note BEFORE DELETE ON main.contexts BEGIN\n"
    "  UPDATE note_uses SET note_bytes = max(0, note_bytes - ifnull(\n"
    "      (SELECT length(note) FROM context_notes WHERE context = old.id), 0))\n"
    "    WHERE tenant = old.tenant;\n"
    "END;\n";

// Row by row: a GROUP BY would sort the notes themselves.
constexpr const char* kCountNotes =
    "INSERT INTO note_uses(tenant, note_bytes)\n"
    "  SELECT c.tenant, length(n.note) FROM main.context_notes n\n"
    "    JOIN main.contexts c ON c.id = n.context WHERE true\n"
    "  ON CONFLICT(tenant) DO UPDATE SET note_bytes = note_bytes + excluded.note_bytes";

}  // namespace

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

Result<uint64_t> NoteBytesOfContext(SqliteDatabase* database, ContextId context) {
  Query query =
      database->Select("SELECT length(note) FROM context_notes WHERE context = ?", context);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  return found ? static_cast<uint64_t>(query.Int(0)) : uint64_t{0};
}

Result<ContextNumber> ContinuedBy(SqliteDatabase* database, ContextId context) {
  Query query = database->Select(
      "SELECT n.number FROM continuations r JOIN context_numbers n ON n.context = r.continues "
      "JOIN contexts c ON c.id = r.context AND c.tenant = n.tenant WHERE r.context = ?",
      context);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  return found ? static_cast<ContextNumber>(query.Int(0)) : ContextNumber::kNone;
}

Status KeepNoteBytes(SqliteDatabase* database) {
  ATTNDB_RETURN_IF_ERROR(database->Execute(kNoteTriggers));
  const Status counted = database->Execute(kCountNotes);
  return counted.code() == StatusCode::kCorruption ? Status::Ok() : counted;
}

Status ViewNoteBytes(SqliteDatabase* database) {
  return database->Execute(
      "CREATE TEMP VIEW note_uses AS\n"
      "  SELECT id AS tenant, (SELECT ifnull(sum(length(n.note)), 0) FROM context_notes n\n"
      "    JOIN contexts c ON c.id = n.context WHERE c.tenant = t.id) AS note_bytes\n"
      "  FROM tenants t");
}

Result<uint64_t> NoteBytesOfTenant(SqliteDatabase* database, TenantId tenant) {
  Query query = database->Select("SELECT note_bytes FROM note_uses WHERE tenant = ?", tenant);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  return found ? static_cast<uint64_t>(query.Int(0)) : uint64_t{0};
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
