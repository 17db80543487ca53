// A response of OpenAI's Responses, as JSON: what it says of its request, its items, its usage.
//
// Ids:     a response is called as the context that its turn is stored as, and its items as the
//          response: the same after a restart.
// Threads: stateless.
#ifndef ATTNDB_SERVER_RESPONSES_RESPONSE_OBJECT_H_
#define ATTNDB_SERVER_RESPONSES_RESPONSE_OBJECT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "engines/llama/llama_engine.h"
#include "server/batch/turn.h"
#include "server/json.h"

namespace attndb::server {

inline constexpr const char* kInProgress = "in_progress";
inline constexpr const char* kCompleted = "completed";
inline constexpr const char* kIncomplete = "incomplete";

std::string ResponseIdOf(const std::string& context);
// Nothing if no response has this id.
std::optional<std::string> ContextOfResponse(const std::string& id);

// The members that a response has in all its states.
struct ResponseFrame {
  std::string context;
  std::string model;
  int64_t created = 0;  // Seconds since the Unix epoch.
  Json settings;        // ResponseRequest::settings.
};

// `usage`: null if the response has not ended.
Json ResponseJson(const ResponseFrame& frame, const char* status, Json output, Json usage);

// How a reply that ended so is called, and what it took.
const char* StatusOf(const TurnEnd& end);
Json ResponseUsage(const TurnStart& start, const TurnEnd& end);

// An item of a reply, whole or as much of it as there is.
struct OutputItem {
  enum class Kind : uint8_t { kThought, kMessage, kCall };
  Kind kind = Kind::kMessage;
  size_t call = 0;      // Which call of the reply it is.
  std::string call_id;  // A call alone has it, and the next two.
  std::string name;
  std::string text = {};  // What came of it, or the JSON of a call's arguments.
};

std::string ItemIdOf(const OutputItem& item, const std::string& context, size_t index);
// Returns the content of an item that is no call.
Json PartOf(const OutputItem& item);
Json ItemJson(const OutputItem& item, const std::string& context, size_t index, const char* status);
// The items of a reply, whose calls have ids.
Json OutputOf(const llama::ReadReply& reply, const std::string& context, const char* status);

// The id of a call to which the model gives none; `index`: among these of the reply.
std::string CallIdOf(const std::string& context, size_t index);
void NameCalls(const std::string& context, llama::ReadReply* reply);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_RESPONSES_RESPONSE_OBJECT_H_
