#include "server/chat/tools_note.h"

#include <array>

#include "server/json.h"

namespace attndb::server {
namespace {

constexpr const char* kVersionMember = "attndb_chat";
constexpr int kVersion = 1;
constexpr const char* kTools = "tools";
constexpr size_t kMaxMembers = 16384;

}  // namespace

std::string NoteOfTools(const std::string& tools) {
  if (tools.empty() || tools.size() > kMaxNotedTools) return {};
  // The tools keep their bytes: the text of a tree of them would be made on the scheduler's thread.
  std::string note = ToText(Json{{kVersionMember, kVersion}});
  note.back() = ',';
  return note + '"' + kTools + "\":" + tools + "}";
}

std::string ToolsOfNote(const std::string& note) {
  constexpr WideField kWide = {.name = kTools, .members = kMaxMembers, .is_deep = true};
  if (note.size() > 2 * kMaxNotedTools) return {};
  const Result<Json> json = ParseJson(note, kWide);
  if (!json.ok() || !json->is_object() || json->value(kVersionMember, Json()) != kVersion)
    return {};
  const Json* const tools = FindMember(*json, kTools);
  return tools != nullptr && tools->is_array() && !tools->empty() ? ToText(*tools) : std::string();
}

}  // namespace attndb::server
