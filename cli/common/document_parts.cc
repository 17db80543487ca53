#include "cli/common/document_parts.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "cli/common/units.h"

namespace attndb::cli {

uint64_t MostOfWhole(const llama::ModelInfo& info, uint64_t part_tokens) {
  const auto limit = [](uint64_t tokens) { return tokens == 0 ? UINT64_MAX : tokens; };
  return std::min(limit(info.max_context), limit(part_tokens));
}

uint64_t MostOfPart(const llama::ModelInfo& info, uint64_t part_tokens) {
  constexpr uint64_t kLeastRoom = 512;
  const uint64_t most = MostOfWhole(info, part_tokens);
  if (part_tokens > 0) return most;
  return most - std::min(most / 2, std::max(most / 8, kLeastRoom));
}

std::string PartText(size_t index, size_t count) {
  return "part " + FormatCount(index + 1) + " of " + FormatCount(count);
}

Status CheckParts(const DB& db, const ModelSpec& spec, std::span<const DocumentPart> parts,
                  const RoomOptions& room) {
  std::vector<TokenId> all_new;  // The tokens that will be run, of all parts.
  const auto check = [&](const DocumentPart& part) -> Status {
    const std::vector<TokenId>& tokens = part.document.tokens;
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<ContextInfo> imported,
                            ImportTarget::FindImported(db, spec, tokens, room.first_position));
    if (imported && imported->name == part.target.name()) return Status();
    ATTNDB_RETURN_IF_ERROR(part.target.CheckNameIsFree(db, tokens));
    ATTNDB_ASSIGN_OR_RETURN(const RoomReport report, db.CheckRoom(spec, tokens, room));
    all_new.insert(all_new.end(), tokens.begin() + static_cast<std::ptrdiff_t>(report.num_reused),
                   tokens.end());
    return Status();
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const Status status = check(parts[i]);
    if (!status.ok()) return status.WithContext(PartText(i, parts.size()));
  }
  if (all_new.empty()) return Status();
  return db.CheckRoom(spec, all_new, room)
      .status()
      .WithContext("all " + FormatCount(parts.size()) + " parts together");
}

Status NoteOtherParts(Environment* env, const DB& db, const std::string& name, size_t num_parts) {
  for (const std::string& each : {name, name + "." + std::to_string(num_parts + 1)}) {
    const Result<ContextInfo> other = db.Describe(each);
    if (other.status().code() == StatusCode::kNotFound) continue;
    ATTNDB_RETURN_IF_ERROR(other.status());
    env->Note("'" + each + "' is there as well, and none of these parts: 'attndb rm " + each +
              "' removes it");
  }
  return Status();
}

}  // namespace attndb::cli
