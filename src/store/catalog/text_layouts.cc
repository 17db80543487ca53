#include "store/catalog/text_layouts.h"

#include <string>
#include <utility>

namespace attndb::store {

Status NoteTextLayout(SqliteDatabase* database, ContextId context, const TextLayout& text) {
  if (text == TextLayout()) {
    return database->Run("DELETE FROM text_layouts WHERE context = ?", context);
  }
  return database->Run(
      "INSERT INTO text_layouts(context, text) VALUES(?, ?) "
      "ON CONFLICT(context) DO UPDATE SET text = excluded.text",
      context, text.ToString());
}

Result<TextLayout> LayoutOfText(SqliteDatabase* database, ContextId context, uint64_t num_tokens) {
  Query query = database->Select("SELECT text FROM text_layouts WHERE context = ?", context);
  ATTNDB_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return TextLayout();
  Result<TextLayout> text = TextLayout::Parse(query.Text(0));
  return text.ok() && text->Validate(num_tokens).ok() ? *std::move(text) : TextLayout();
}

Status ViewNoLayouts(SqliteDatabase* database) {
  return database->Execute(
      "CREATE TEMP VIEW text_layouts AS\n"
      "  SELECT 0 AS context, '' AS text WHERE 0");
}

}  // namespace attndb::store
