#include "api/kv_file/kv_file_notes.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "attndb/context_title.h"
#include "attndb/options.h"
#include "common/hex.h"

namespace attndb::internal {
namespace {

// A reader takes values of at most 4 MiB, and a byte is two digits.
constexpr size_t kPieceBytes = size_t{1} << 20;

std::string KeyOfPiece(size_t piece) { return std::string(kNoteKey) + std::to_string(piece); }

}  // namespace

void PutTitleAndNote(std::string_view title, std::string_view note,
                     std::map<std::string, std::string>* metadata) {
  if (!title.empty()) (*metadata)[std::string(kTitleKey)] = title;
  for (size_t piece = 0; !note.empty(); ++piece) {
    const std::string_view bytes = note.substr(0, kPieceBytes);
    (*metadata)[KeyOfPiece(piece)] = HexEncode(std::as_bytes(std::span(bytes)));
    note.remove_prefix(bytes.size());
  }
}

std::string TitleIn(const std::map<std::string, std::string>& metadata) {
  const auto title = metadata.find(std::string(kTitleKey));
  if (title == metadata.end() || !CheckContextTitle(title->second).ok()) return "";
  return title->second;
}

std::string NoteIn(const std::map<std::string, std::string>& metadata) {
  std::string note;
  for (size_t piece = 0;; ++piece) {
    const auto text = metadata.find(KeyOfPiece(piece));
    if (text == metadata.end()) return note;
    const std::optional<std::vector<std::byte>> bytes = HexDecode(text->second);
    if (!bytes || bytes->size() > StoreOptions::kMaxNoteBytes - note.size()) return "";
    note.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
}

}  // namespace attndb::internal
