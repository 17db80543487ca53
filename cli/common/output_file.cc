#include "cli/common/output_file.h"

#include <filesystem>
#include <system_error>
#include <utility>

namespace attndb::cli {

Status CheckOutputFile(const std::string& path, const std::string& flag) {
  if (path.empty()) return Status::InvalidArgument(flag + " is empty, expected a file to write");
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Status::InvalidArgument(flag + ": '" + path + "' is a folder, expected a file to write");
  }
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (std::filesystem::exists(parent, error) && !std::filesystem::is_directory(parent, error)) {
    return Status::InvalidArgument(flag + ": '" + parent.string() +
                                   "' is a file, expected a folder for '" + path + "'");
  }
  return Status();
}

Status WithFileAdvice(Environment* env, Status status) {
  switch (status.code()) {
    case StatusCode::kAlreadyExists:
      return env->WithAdvice(std::move(status), "a file is never replaced");
    case StatusCode::kNotFound:
      return env->WithAdvice(std::move(status), "make it first, or choose another FILE");
    case StatusCode::kReadOnly:
      return env->WithAdvice(std::move(status), "choose a FILE in a folder that you may write to");
    case StatusCode::kCancelled:
      return env->WithAdvice(std::move(status), "no file is written");
    default:
      return status;
  }
}

}  // namespace attndb::cli
