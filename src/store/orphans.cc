#include "store/orphans.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "attndb/units.h"
#include "common/hex.h"
#include "storage/vfs/object_owner.h"
#include "storage/vfs/store_files.h"

namespace attndb::store {
namespace {

using storage::ObjectName;
using storage::ParsedFileName;

// The objects that a catalog knows, and the numbers that it never handed out.
class Known {
 public:
  static Result<Known> Of(Catalog* catalog) {
    Known known;
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ObjectName> objects,
                            catalog->companions()->KnownObjects());
    known.objects_ = {objects.begin(), objects.end()};
    ATTNDB_ASSIGN_OR_RETURN(known.end_number_, catalog->EndOfNumbers());
    for (const SegmentId id : catalog->forgotten()) {
      known.forgotten_.insert(static_cast<uint64_t>(id));
    }
    return known;
  }

  bool Has(const ObjectName& name) const { return objects_.contains(name); }
  size_t num_objects() const { return objects_.size(); }
  // Whether the catalog has ever handed out the segment's id: if not, a newer one has.
  bool HandedOut(uint64_t segment_id) const { return segment_id < end_number_; }
  // Whether it can be removed: the catalog itself had it last, or it can be made again.
  bool IsExpendable(const ObjectName& name) const {
    if (forgotten_.contains(name.segment_id)) return true;
    const bool is_derived = name.kind != storage::kSegmentKind && name.generation < end_number_;
    return is_derived && Has({.segment_id = name.segment_id});
  }

 private:
  std::set<ObjectName> objects_;
  std::set<uint64_t> forgotten_;
  uint64_t end_number_ = 0;  // The catalog has handed out no number from here on.
};

std::string AsidePath(const Settings& settings) {
  return storage::JoinPath(settings.path, std::string(kAsideName));
}

Status Move(const Settings& settings, const std::string& name, const std::string& from,
            const std::string& to) {
  const Status moved =
      settings.file_system->Rename(storage::JoinPath(from, name), storage::JoinPath(to, name));
  // If the file exists already, both stay as they are.
  return moved.code() == StatusCode::kAlreadyExists ? Status::Ok() : moved;
}

Status BringBack(const Settings& settings, const Known& known) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesAside(settings));
  for (const std::string& name : names) {
    const std::optional<ParsedFileName> file = storage::ParseFileName(name);
    if (!file || file->temporary || !known.Has(file->name)) continue;
    ATTNDB_RETURN_IF_ERROR(Move(settings, name, AsidePath(settings), settings.segments_dir));
  }
  return Status::Ok();
}

// If none of the store's files exists, the disk is absent: new files would lie beneath the mount.
Status CheckDiskIsThere(const Settings& settings, const Known& known,
                        const std::vector<std::string>& names) {
  const auto is_known = [&](const std::string& name) {
    const std::optional<ParsedFileName> file = storage::ParseFileName(name);
    return file && !file->temporary && known.Has(file->name);
  };
  if (known.num_objects() == 0 || std::ranges::any_of(names, is_known)) return Status::Ok();
  return Status::IoError(settings.segments_dir + ": has none of the files that " +
                         std::string(kCatalogName) + " knows, " + FormatCount(known.num_objects()) +
                         ": is its disk mounted? Until it is, the store can be opened read-only");
}

Status PutAside(const Settings& settings, const std::vector<std::string>& names) {
  if (names.empty()) return Status::Ok();
  ATTNDB_RETURN_IF_ERROR(settings.file_system->CreateDir(AsidePath(settings)));
  for (const std::string& name : names) {
    ATTNDB_RETURN_IF_ERROR(Move(settings, name, settings.segments_dir, AsidePath(settings)));
  }
  ATTNDB_RETURN_IF_ERROR(settings.file_system->SyncDir(AsidePath(settings)));
  return settings.file_system->SyncDir(settings.path);
}

// Files in aside/ may come back, and need their names then. Call it once they lie there. From then
// on, a mark in segments/ with a number of this catalog is believed; before, it must not be.
Status PassNumbersAside(const Settings& settings, Catalog* catalog) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesAside(settings));
  std::vector<uint64_t> numbers;
  for (const std::string& name : names) {
    const std::optional<ParsedFileName> file = storage::ParseFileName(name);
    if (!file || file->temporary) continue;
    numbers.push_back(file->name.segment_id);
    numbers.push_back(file->name.generation);
  }
  return catalog->PassNumbers(numbers);
}

}  // namespace

Result<std::vector<std::string>> FilesAside(const Settings& settings) {
  Result<std::vector<std::string>> names = settings.file_system->List(AsidePath(settings));
  if (names.status().code() == StatusCode::kNotFound) return std::vector<std::string>();
  return names;
}

Status CheckOwner(const Settings& settings, Catalog* catalog) {
  ATTNDB_ASSIGN_OR_RETURN(const Known known, Known::Of(catalog));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          settings.file_system->List(settings.segments_dir));
  bool has_known = false;  // One known file is enough.
  for (const std::string& name : names) {
    const std::optional<ParsedFileName> file = storage::ParseFileName(name);
    if (!file || file->temporary || file->file != storage::ObjectFile::kData) continue;
    if (known.Has(file->name) && std::exchange(has_known, true)) continue;
    const std::string path = storage::JoinPath(settings.segments_dir, name);
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<StoreUuid> owner,
                            storage::OwnerOf(settings.file_system, path));
    if (!owner || *owner == catalog->store_uuid()) continue;
    return Status::Corruption(path + ": belongs to store " + HexEncode(*owner) + ", but " +
                              std::string(kCatalogName) + " is that of store " +
                              HexEncode(catalog->store_uuid()) +
                              ": put the folder's own catalog back, or take this file out of it");
  }
  return Status::Ok();
}

Status ClearOrphans(const Settings& settings, Catalog* catalog) {
  ATTNDB_ASSIGN_OR_RETURN(const Known known, Known::Of(catalog));
  ATTNDB_RETURN_IF_ERROR(BringBack(settings, known));
  storage::FileSystem* const fs = settings.file_system;
  const std::string& dir = settings.segments_dir;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs->List(dir));
  ATTNDB_RETURN_IF_ERROR(CheckDiskIsThere(settings, known, names));
  std::set<uint64_t> loose;
  std::vector<std::string> marks;
  for (const std::string& name : names) {
    const std::optional<uint64_t> segment = storage::ParseLooseName(name);
    if (!segment) continue;
    loose.insert(*segment);
    marks.push_back(name);
  }
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<std::string> orphans,
      storage::ListOrphans(fs, dir, [&](const ObjectName& name) { return known.Has(name); }));
  std::vector<std::string> removed;
  std::vector<std::string> aside;
  for (const std::string& name : orphans) {
    const ParsedFileName file = *storage::ParseFileName(name);
    const uint64_t segment = file.name.segment_id;
    const bool is_loose = loose.contains(segment) && known.HandedOut(segment);
    const bool is_expendable = file.temporary || is_loose || known.IsExpendable(file.name);
    (is_expendable ? removed : aside).push_back(name);
  }
  removed.insert(removed.end(), marks.begin(), marks.end());  // After the files that they mark.
  for (const std::string& name : removed) {
    ATTNDB_RETURN_IF_ERROR(fs->Remove(storage::JoinPath(dir, name)));
  }
  ATTNDB_RETURN_IF_ERROR(PutAside(settings, aside));
  return PassNumbersAside(settings, catalog);
}

}  // namespace attndb::store
