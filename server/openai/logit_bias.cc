#include "server/openai/logit_bias.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace attndb::server {
namespace {

constexpr const char* kField = "logit_bias";

Result<float> ReadBias(const std::string& name, const Json& value) {
  if (value == false) return -std::numeric_limits<float>::infinity();
  const double bias = value.is_number() ? value.get<double>() : std::nan("");
  if (std::abs(bias) <= kMaxLogitBias) return static_cast<float>(bias);
  return WrongValue(name, "a number from -1000000 to 1000000, or false", value);
}

// "15043": a number from an object's member.
bool IsNumber(const std::string& key) {
  const size_t begin = key.starts_with('-') ? 1 : 0;
  return key.size() > begin && key.find_first_not_of("0123456789", begin) == std::string::npos;
}

Status ReadId(const std::string& name, const Json& id, BiasEntry* entry) {
  if (ReadTokenId(id, &entry->token)) return Status::Ok();
  return WrongValue(
      name, "the id of a token, or a text of 1 to " + std::to_string(kMaxBiasTextBytes) + " bytes",
      id);
}

Status ReadWord(const std::string& name, const std::string& text, BiasEntry* entry) {
  if (text.empty() || text.size() > kMaxBiasTextBytes) return ReadId(name, text, entry);
  entry->text = text;
  return Status::Ok();
}

Status ReadMember(const std::string& key, BiasEntry* entry) {
  if (!IsNumber(key)) return ReadWord(kField, key, entry);
  constexpr size_t kMostDigits = 10;
  if (key.size() > kMostDigits || key.starts_with('-')) return ReadId(kField, key, entry);
  return ReadId(kField, Json(std::stoull(key)), entry);
}

Status Add(BiasEntry entry, size_t* num_texts, std::vector<BiasEntry>* entries) {
  if (!entry.text.empty() && ++*num_texts > kMaxBiasTexts) {
    return Status::InvalidArgument("'logit_bias' has more than " + std::to_string(kMaxBiasTexts) +
                                   " texts: name tokens by their ids");
  }
  entries->push_back(std::move(entry));
  return Status::Ok();
}

Result<std::vector<BiasEntry>> ReadObject(const Json& object) {
  std::vector<BiasEntry> entries;
  size_t num_texts = 0;
  for (const auto& [key, value] : object.items()) {
    BiasEntry entry;
    ATTNDB_RETURN_IF_ERROR(ReadMember(key, &entry));
    ATTNDB_ASSIGN_OR_RETURN(entry.bias, ReadBias(std::string(kField) + "." + Shown(key), value));
    ATTNDB_RETURN_IF_ERROR(Add(std::move(entry), &num_texts, &entries));
  }
  return entries;
}

Result<std::vector<BiasEntry>> ReadList(const Json& list) {
  std::vector<BiasEntry> entries;
  size_t num_texts = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& pair = list[i];
    const std::string name = std::string(kField) + "[" + std::to_string(i) + "]";
    if (!pair.is_array() || pair.size() != 2) {
      return WrongValue(name, "a token and its bias, as [15043, -100]", pair);
    }
    BiasEntry entry;
    ATTNDB_RETURN_IF_ERROR(pair[0].is_string()
                               ? ReadWord(name, pair[0].get_ref<const std::string&>(), &entry)
                               : ReadId(name, pair[0], &entry));
    ATTNDB_ASSIGN_OR_RETURN(entry.bias, ReadBias(name, pair[1]));
    ATTNDB_RETURN_IF_ERROR(Add(std::move(entry), &num_texts, &entries));
  }
  return entries;
}

}  // namespace

Result<std::vector<BiasEntry>> ReadLogitBias(const Json& body) {
  const Json* const found = FindMember(body, kField);
  if (found == nullptr || *found == "" || *found == false) return std::vector<BiasEntry>();
  if (found->size() > kMaxBiasEntries) {
    return Status::InvalidArgument("'logit_bias' has " + std::to_string(found->size()) +
                                   " entries, at most " + std::to_string(kMaxBiasEntries) +
                                   " are taken");
  }
  if (found->is_object()) return ReadObject(*found);
  if (found->is_array()) return ReadList(*found);
  return WrongValue(kField, "an object of tokens and biases, or a list of pairs", *found);
}

}  // namespace attndb::server
