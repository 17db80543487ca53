#include "cli/common/advice.h"

#include <algorithm>
#include <array>

namespace attndb::cli {
namespace {

constexpr char kList[] = "'attndb ls' lists what there is";
constexpr char kOtherName[] = "choose another --name, or pass --replace";
constexpr char kVerify[] = "'attndb verify' lists all damage; import what it names again";
constexpr char kPutBack[] = "put back a copy of the store, or name another with --db";
constexpr char kFreeMemory[] = "'attndb doctor' shows how much memory is free";
constexpr char kFreeDisk[] = "'attndb doctor' shows what is free; 'attndb rm' makes room";
constexpr char kOtherPort[] = "--port names another; --port 0 takes one that is free";

using Place = AdvicePlace;

constexpr auto kTable = std::to_array<AdviceEntry>({
    {"a context that is not there", StatusCode::kNotFound, "no context", Place::kAnywhere, kList},
    {"a context that went meanwhile", StatusCode::kNotFound, "is not in the store any more",
     Place::kAnywhere, kList},
    {"a context that has expired", StatusCode::kNotFound, "' has expired", Place::kAnywhere,
     "import its text again"},

    {"a name that another text has", StatusCode::kAlreadyExists, "the name '", Place::kAnywhere,
     kOtherName},
    {"a name that another context has", StatusCode::kAlreadyExists, " exists (", Place::kAnywhere,
     kOtherName},

    {"a catalog that is missing", StatusCode::kCorruption, "put the catalog back", Place::kAnywhere,
     ""},
    {"a catalog file that is damaged", StatusCode::kCorruption, "catalog.db", Place::kAnywhere,
     kPutBack},
    {"a row of the catalog that is damaged", StatusCode::kCorruption, "catalog: ", Place::kAnywhere,
     kPutBack},
    {"a context that is damaged", StatusCode::kCorruption, "import its text again",
     Place::kAnywhere, "'attndb verify' lists all damage"},
    {"damage that verify meets", StatusCode::kCorruption, "", Place::kVerify,
     "import again what is damaged"},
    {"a file of the store that is damaged", StatusCode::kCorruption, "", Place::kStorePath,
     kVerify},
    {"a segment that is damaged", StatusCode::kCorruption, "segment ", Place::kAnywhere, kVerify},

    {"a quota that is used up", StatusCode::kResourceExhausted, "quota of", Place::kAnywhere,
     "'attndb rm' and 'attndb quota' make room"},
    {"a server that is busy", StatusCode::kResourceExhausted, "", Place::kServer, ""},
    {"a disk that is full", StatusCode::kResourceExhausted, "the disk has", Place::kAnywhere,
     kFreeDisk},
    {"a disk that fills up meanwhile", StatusCode::kResourceExhausted, "No space left on device",
     Place::kStorePath, kFreeDisk},
    {"a user's part of the disk that is full", StatusCode::kResourceExhausted,
     "Disk quota exceeded", Place::kStorePath, kFreeDisk},
    {"too many open files", StatusCode::kResourceExhausted, "Too many open files", Place::kAnywhere,
     "'ulimit -n' sets how many a process may have"},
    {"memory that lacks", StatusCode::kResourceExhausted, "memory", Place::kAnywhere, kFreeMemory},

    {"a store that another process writes to", StatusCode::kBusy, "is locked by", Place::kAnywhere,
     "try again when it has ended, or pass --wait SECONDS"},
    {"a context that a server appends to", StatusCode::kBusy, "", Place::kServer,
     "try again when that has ended"},

    {"a store that can't be written to", StatusCode::kReadOnly, "", Place::kStorePath,
     "check the store's permissions, or name another with --db"},

    {"a port that is taken", StatusCode::kIoError, "Address already in use", Place::kAnywhere,
     kOtherPort},
    {"an address that can't be listened on", StatusCode::kIoError, "can't listen on",
     Place::kAnywhere, "--host and --port say where to listen"},
    {"a disk that is not mounted", StatusCode::kIoError, "is its disk mounted", Place::kAnywhere,
     ""},
    {"a store that was moved away", StatusCode::kIoError, "open it where it lies", Place::kAnywhere,
     ""},
    {"a file of the store that can't be read", StatusCode::kIoError, "", Place::kStorePath,
     "'attndb doctor' checks disk and permissions"},

    {"a context of another model than the server's", StatusCode::kOtherModel, "", Place::kServer,
     "ask a server of that model, or import the text there again"},
    {"a context of another model", StatusCode::kOtherModel, "", Place::kAnywhere,
     "pass the --model that made the context; where the weights are the same, "
     "'attndb declare-equal' says so"},

    {"a fault of attndb", StatusCode::kInternal, "", Place::kAnywhere,
     "this is a bug of attndb: please report it"},
});

// Whether the message names the path, or a file below it. A path may also be a part of a word.
bool Names(const std::string& message, const std::string& path) {
  if (path.empty()) return false;
  for (size_t at = message.find(path); at != std::string::npos; at = message.find(path, at + 1)) {
    const char before = at == 0 ? ' ' : message[at - 1];
    const size_t end = at + path.size();
    const char behind = end == message.size() ? '\'' : message[end];
    const bool begins = before == ' ' || before == '\'' || before == '(';
    if (begins && (behind == '/' || behind == ':' || behind == '\'')) return true;
  }
  return false;
}

bool IsAt(Place place, const std::string& message, const FailureScene& scene) {
  switch (place) {
    case Place::kAnywhere:
      return true;
    case Place::kServer:
      return scene.through_server;
    case Place::kStorePath:
      return Names(message, scene.store_path);
    case Place::kVerify:
      return scene.command == "verify";
  }
  return false;
}

}  // namespace

std::span<const AdviceEntry> AdviceTable() { return kTable; }

std::string_view AdviceFor(const Status& status, const FailureScene& scene) {
  const std::string& message = status.message();
  const auto found = std::ranges::find_if(kTable, [&](const AdviceEntry& entry) {
    return entry.code == status.code() && message.find(entry.words) != std::string::npos &&
           IsAt(entry.place, message, scene);
  });
  return found == kTable.end() ? std::string_view() : found->advice;
}

}  // namespace attndb::cli
