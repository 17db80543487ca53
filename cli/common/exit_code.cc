#include "cli/common/exit_code.h"

#include <array>

namespace attndb::cli {
namespace {

constexpr std::array<ExitCodeText, 14> kExitCodes = {{
    {ExitCode::kOk, "ok", "done"},
    {ExitCode::kError, "error", "error of the operating system, or a bug of ours"},
    {ExitCode::kUsage, "usage", "the command line, or a file that it names, is wrong"},
    {ExitCode::kNotFound, "not found", "no such store, context, model or file"},
    {ExitCode::kDamage, "damage", "damage: a checksum or an identity does not match"},
    {ExitCode::kBusy, "busy", "another process writes to the store"},
    {ExitCode::kResource, "no room", "no room: disk, quota or memory limit"},
    {ExitCode::kCheckDiffers, "check differs", "ask --check: plain llama.cpp says something else"},
    {ExitCode::kNameTaken, "name taken", "the name is taken"},
    {ExitCode::kReadOnly, "read-only", "the store can't be written to"},
    {ExitCode::kUnsupported, "unsupported",
     "a model, format or feature that this build can't honour"},
    {ExitCode::kOtherModel, "other model", "the context was made by another model; both are named"},
    {ExitCode::kNoText, "no text", "the folders that import was given hold files, and no text"},
    {ExitCode::kInterrupted, "interrupted", "interrupted; what was done is stored"},
}};

}  // namespace

std::span<const ExitCodeText> ExitCodeTexts() { return kExitCodes; }

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
    case StatusCode::kOtherModel:
      return ExitCode::kOtherModel;
    case StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    case StatusCode::kFailedPrecondition:
    case StatusCode::kIoError:
    case StatusCode::kInternal:
      return ExitCode::kError;
  }
  return ExitCode::kError;
}

std::optional<StatusCode> CodeNamed(std::string_view name) {
  for (int number = 1; number <= static_cast<int>(StatusCode::kOtherModel); ++number) {
    const auto code = static_cast<StatusCode>(number);
    if (StatusCodeName(code) == name) return code;
  }
  return std::nullopt;
}

}  // namespace attndb::cli
