#include "storage/vfs/object_name.h"

#include <charconv>

#include "common/check.h"
#include "common/hex.h"
#include "storage/vfs/format.h"

namespace attndb::storage {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::string_view kManifestSuffix = ".manifest";
constexpr std::string_view kLooseSuffix = ".loose";
constexpr std::string_view kSegmentSuffix = ".seg";
constexpr std::string_view kCompanionSuffix = ".obj";
constexpr size_t kIdDigits = 16;

bool ConsumeSuffix(std::string_view suffix, std::string_view* text) {
  if (!text->ends_with(suffix)) return false;
  text->remove_suffix(suffix.size());
  return true;
}

// Decimal without sign or leading zeros, so that one number has one name.
std::optional<uint64_t> ParseDecimal(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "<id>" or "<id>.<kind>.<generation>".
std::optional<ObjectName> ParseStem(std::string_view stem) {
  const std::optional<uint64_t> id = ParseHexU64(stem.substr(0, kIdDigits));
  if (!id) return std::nullopt;
  ObjectName name{.segment_id = *id};
  stem.remove_prefix(kIdDigits);
  if (stem.empty()) return name;
  const size_t dot = stem.rfind('.');
  if (stem.front() != '.' || dot == 0) return std::nullopt;
  name.kind = stem.substr(1, dot - 1);
  const std::optional<uint64_t> generation = ParseDecimal(stem.substr(dot + 1));
  if (!IsKindName(name.kind) || name.kind == kSegmentKind || !generation) return std::nullopt;
  name.generation = *generation;
  return name;
}

}  // namespace

bool IsKindName(std::string_view kind) {
  if (kind.empty() || kind.size() > kKindNameBytes) return false;
  for (const char c : kind) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    if (!allowed) return false;
  }
  return true;
}

std::string FileNameOf(const ObjectName& name, ObjectFile file) {
  ATTNDB_CHECK(IsKindName(name.kind));
  std::string file_name = HexU64(name.segment_id);
  const bool is_segment = name.kind == kSegmentKind;
  if (is_segment) {
    ATTNDB_CHECK(name.generation == 0);
  } else {
    file_name += '.' + name.kind + '.' + std::to_string(name.generation);
  }
  if (file == ObjectFile::kManifest) {
    file_name += kManifestSuffix;
  } else {
    file_name += is_segment ? kSegmentSuffix : kCompanionSuffix;
  }
  return file_name;
}

std::string TemporaryNameOf(const ObjectName& name, ObjectFile file) {
  return FileNameOf(name, file) += kTemporarySuffix;
}

std::string LooseNameOf(uint64_t segment_id) { return HexU64(segment_id).append(kLooseSuffix); }

std::optional<uint64_t> ParseLooseName(std::string_view file_name) {
  if (!ConsumeSuffix(kLooseSuffix, &file_name) || file_name.size() != kIdDigits) {
    return std::nullopt;
  }
  return ParseHexU64(file_name);
}

std::optional<ParsedFileName> ParseFileName(std::string_view file_name) {
  ParsedFileName parsed;
  std::string_view stem = file_name;
  parsed.temporary = ConsumeSuffix(kTemporarySuffix, &stem);
  bool segment_data = false;
  if (ConsumeSuffix(kManifestSuffix, &stem)) {
    parsed.file = ObjectFile::kManifest;
  } else if (ConsumeSuffix(kSegmentSuffix, &stem)) {
    segment_data = true;
  } else if (!ConsumeSuffix(kCompanionSuffix, &stem)) {
    return std::nullopt;
  }
  std::optional<ObjectName> name = ParseStem(stem);
  if (!name) return std::nullopt;
  const bool is_segment = name->kind == kSegmentKind;
  if (parsed.file == ObjectFile::kData && is_segment != segment_data) return std::nullopt;
  parsed.name = *std::move(name);
  return parsed;
}

std::string Describe(const ObjectName& name) {
  const std::string segment = "segment " + HexU64(name.segment_id);
  if (name.kind == kSegmentKind) return segment;
  return name.kind + '.' + std::to_string(name.generation) + " of " + segment;
}

}  // namespace attndb::storage
