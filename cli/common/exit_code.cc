#include "cli/common/exit_code.h"

namespace attndb::cli {

ExitCode ExitCodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return ExitCode::kOk;
    case StatusCode::kInvalidArgument:
      return ExitCode::kUsage;
    case StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case StatusCode::kAlreadyExists:
      return ExitCode::kNameTaken;
    case StatusCode::kCorruption:
      return ExitCode::kDamage;
    case StatusCode::kResourceExhausted:
      return ExitCode::kResource;
    case StatusCode::kUnsupported:
      return ExitCode::kUnsupported;
    case StatusCode::kBusy:
      return ExitCode::kBusy;
    case StatusCode::kReadOnly:
      return ExitCode::kReadOnly;
    case StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    case StatusCode::kFailedPrecondition:
    case StatusCode::kIoError:
    case StatusCode::kInternal:
      return ExitCode::kError;
  }
  return ExitCode::kError;
}

std::string_view AdviceFor(StatusCode code) {
  switch (code) {
    case StatusCode::kNotFound:
      return "'attndb ls' lists what there is";
    case StatusCode::kAlreadyExists:
      return "choose another --name, or pass --replace";
    case StatusCode::kCorruption:
      return "'attndb verify' lists all damage; import what it names again";
    case StatusCode::kResourceExhausted:
      return "'attndb doctor' shows what is free; 'attndb rm' and 'attndb quota' make room";
    case StatusCode::kBusy:
      return "try again when it has ended, or pass --wait SECONDS";
    case StatusCode::kReadOnly:
      return "check the store's permissions, or name another with --db";
    case StatusCode::kIoError:
      return "'attndb doctor' checks disk and permissions";
    case StatusCode::kInternal:
      return "this is a bug of attndb: please report it";
    case StatusCode::kOk:
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnsupported:
    case StatusCode::kCancelled:
      return "";
  }
  return "";
}

}  // namespace attndb::cli
