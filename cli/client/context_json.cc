#include "cli/client/context_json.h"

#include <array>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "attndb/fingerprint.h"
#include "cli/client/server_client.h"
#include "server/json.h"

namespace attndb::cli {
namespace {

// Reads members into the fields that they are for; the first that is wrong is its status. A member
// that is not there leaves its field as it is: an older server has fewer.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {
    if (!json.is_object()) status_ = Status::IoError("the server sent a context that is no object");
  }

  const Status& status() const { return status_; }
  void Refuse(const char* name) {
    if (status_.ok()) {
      status_ = Status::IoError("the server sent a context whose '" + std::string(name) +
                                "' can't be read");
    }
  }

  template <typename Number>
  void Read(const char* name, Number* value) {
    const Json* const json = Find(name);
    if (json == nullptr) return;
    if constexpr (std::is_signed_v<Number>) {
      const bool fits = json->is_number_integer() &&
                        (!json->is_number_unsigned() || json->get<uint64_t>() <= INT64_MAX);
      if (!fits) return Refuse(name);
    } else if (!json->is_number_unsigned() ||
               json->get<uint64_t>() > std::numeric_limits<Number>::max()) {
      return Refuse(name);
    }
    *value = json->get<Number>();
  }
  void Read(const char* name, bool* value) {
    const Json* const json = Find(name);
    if (json == nullptr) return;
    if (!json->is_boolean()) return Refuse(name);
    *value = json->get<bool>();
  }
  void Read(const char* name, std::string* value) {
    const Json* const json = Find(name);
    if (json == nullptr) return;
    if (!json->is_string()) return Refuse(name);
    *value = Printable(json->get_ref<const std::string&>());
  }
  // Calls `read` for each element of an array.
  template <typename ReadElement>
  void ForEach(const char* name, ReadElement read) {
    const Json* const json = Find(name);
    if (json == nullptr) return;
    if (!json->is_array()) return Refuse(name);
    for (const Json& element : *json) {
      if (!status_.ok()) return;
      Status status = read(element);
      if (!status.ok()) status_ = std::move(status);
    }
  }
  const Json* Find(const char* name) const {
    return status_.ok() ? server::FindMember(json_, name) : nullptr;
  }

 private:
  const Json& json_;
  Status status_;
};

Result<CompanionInfo> CompanionFromJson(const Json& json) {
  CompanionInfo companion;
  Reader reader(json);
  reader.Read("kind", &companion.kind);
  reader.Read("file_bytes", &companion.file_bytes);
  ATTNDB_RETURN_IF_ERROR(reader.status());
  return companion;
}

Result<SegmentInfo> SegmentFromJson(const Json& json) {
  SegmentInfo segment;
  Reader reader(json);
  reader.Read("segment_id", &segment.segment_id);
  reader.Read("num_tokens_used", &segment.num_tokens_used);
  reader.Read("num_tokens", &segment.num_tokens);
  reader.Read("file_bytes", &segment.file_bytes);
  reader.Read("num_contexts", &segment.num_contexts);
  reader.Read("damage", &segment.damage);
  reader.ForEach("companions", [&segment](const Json& element) -> Status {
    ATTNDB_ASSIGN_OR_RETURN(CompanionInfo companion, CompanionFromJson(element));
    segment.companions.push_back(std::move(companion));
    return Status::Ok();
  });
  ATTNDB_RETURN_IF_ERROR(reader.status());
  return segment;
}

Result<Cut> CutFromJson(const Json& json) {
  Cut cut;
  Reader reader(json);
  reader.Read("at", &cut.at);
  reader.ForEach("dropped", [&](const Json& range) {
    const bool fits = range.is_array() && range.size() == 2 && range[0].is_number_unsigned() &&
                      range[1].is_number_unsigned() && range[0] < range[1];
    if (!fits) return Status::IoError("the server sent a range of tokens that can't be read");
    cut.dropped.push_back({range[0].get<uint64_t>(), range[1].get<uint64_t>()});
    return Status::Ok();
  });
  ATTNDB_RETURN_IF_ERROR(reader.status());
  return cut;
}

void ReadDType(Reader* reader, DType* dtype) {
  constexpr std::array kDTypes = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  std::string name(DTypeName(*dtype));
  reader->Read("kv_dtype", &name);
  for (const DType known : kDTypes) {
    if (DTypeName(known) == name) {
      *dtype = known;
      return;
    }
  }
  reader->Refuse("kv_dtype");
}

void ReadFingerprint(Reader* reader, std::string* fingerprint) {
  std::string text;
  reader->Read("fingerprint", &text);
  if (text.empty()) return;
  Result<std::string> parsed = ParseFingerprint(text);
  if (!parsed.ok()) return reader->Refuse("fingerprint");
  *fingerprint = *std::move(parsed);
}

void ReadDerived(Reader* reader, std::map<std::string, uint64_t>* derived_bytes) {
  const Json* const json = reader->Find("derived_bytes");
  if (json == nullptr) return;
  if (!json->is_object()) return reader->Refuse("derived_bytes");
  for (const auto& [kind, bytes] : json->items()) {
    if (!bytes.is_number_unsigned()) return reader->Refuse("derived_bytes");
    (*derived_bytes)[Printable(kind)] = bytes.get<uint64_t>();
  }
}

void ReadLists(Reader* reader, ContextInfo* context) {
  ReadDerived(reader, &context->derived_bytes);
  reader->ForEach("non_finite_heads", [context](const Json& head) {
    if (!head.is_string()) return Status::IoError("the server sent a head that is no text");
    context->non_finite_heads.push_back(Printable(head.get_ref<const std::string&>()));
    return Status::Ok();
  });
  reader->ForEach("cuts", [context](const Json& element) -> Status {
    ATTNDB_ASSIGN_OR_RETURN(Cut cut, CutFromJson(element));
    context->cuts.push_back(std::move(cut));
    return Status::Ok();
  });
  reader->ForEach("segments", [context](const Json& element) -> Status {
    ATTNDB_ASSIGN_OR_RETURN(SegmentInfo segment, SegmentFromJson(element));
    context->segments.push_back(std::move(segment));
    return Status::Ok();
  });
}

void ReadTextLayout(Reader* reader, TextLayout* layout) {
  std::string text;
  reader->Read("text_layout", &text);
  Result<TextLayout> parsed = TextLayout::Parse(text);
  if (!parsed.ok()) return reader->Refuse("text_layout");
  *layout = *std::move(parsed);
}

}  // namespace

Result<ContextInfo> ContextFromJson(const Json& json) {
  ContextInfo context;
  Reader reader(json);
  auto id = static_cast<int64_t>(context.id);
  if (reader.Find("id") == nullptr) reader.Refuse("id");  // Whatever it is, it is no context.
  reader.Read("id", &id);
  context.id = static_cast<ContextId>(id);
  reader.Read("name", &context.name);
  reader.Read("title", &context.title);
  auto continues = static_cast<int64_t>(context.continues);
  reader.Read("continues", &continues);
  context.continues = static_cast<ContextId>(continues);
  reader.Read("num_tokens", &context.num_tokens);
  reader.Read("kv_bytes", &context.kv_bytes);
  reader.Read("file_bytes", &context.file_bytes);
  reader.Read("own_bytes", &context.own_bytes);
  reader.Read("companion_bytes", &context.companion_bytes);
  reader.Read("num_pending_companions", &context.num_pending_companions);
  reader.Read("retained_bytes", &context.retained_bytes);
  reader.Read("query_sample_bytes", &context.query_sample_bytes);
  reader.Read("created_us", &context.created_us);
  reader.Read("last_access_us", &context.last_access_us);
  if (reader.Find("ttl_seconds") != nullptr)
    reader.Read("ttl_seconds", &context.ttl_seconds.emplace());
  reader.Read("pinned", &context.pinned);
  reader.Read("expired", &context.expired);
  reader.Read("damaged", &context.damaged);
  reader.Read("first_position", &context.first_position);
  reader.Read("unrotated_keys", &context.unrotated_keys);
  reader.Read("model_name", &context.model_name);
  reader.Read("model_path", &context.model_path);
  reader.Read("num_layers", &context.num_layers);
  reader.Read("rope_scaling", &context.rope_scaling);
  reader.Read("num_dropped", &context.num_dropped);
  ReadDType(&reader, &context.kv_dtype);
  ReadFingerprint(&reader, &context.fingerprint);
  ReadTextLayout(&reader, &context.text_layout);
  ReadLists(&reader, &context);
  ATTNDB_RETURN_IF_ERROR(reader.status());
  return context;
}

Result<uint64_t> CountFromJson(const Json& json, const char* name) {
  uint64_t count = 0;
  Reader reader(json);
  reader.Read(name, &count);
  ATTNDB_RETURN_IF_ERROR(reader.status());
  return count;
}

std::vector<std::string> TextsFromJson(const Json& json, const char* name) {
  std::vector<std::string> texts;
  const Json* const list = server::FindMember(json, name);
  if (list == nullptr || !list->is_array()) return texts;
  for (const Json& text : *list) {
    if (text.is_string()) texts.push_back(Printable(text.get_ref<const std::string&>()));
  }
  return texts;
}

}  // namespace attndb::cli
