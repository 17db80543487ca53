#include "cli/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "cli/common/interrupt.h"
#include "cli/common/progress.h"

namespace attndb::cli {
namespace {

constexpr double kRetrySeconds = 0.2;

std::string EnvironmentText(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void WriteLine(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stream);
}

}  // namespace

std::string DefaultDbPath() {
  if (const std::string path = EnvironmentText("ATTNDB_PATH"); !path.empty()) return path;
  if (const std::string data = EnvironmentText("XDG_DATA_HOME"); !data.empty()) {
    return data + "/attndb";
  }
  const std::string home = EnvironmentText("HOME");
  return (home.empty() ? "." : home) + "/.local/share/attndb";
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Environment::db_path() const {
  return options_.db_path.empty() ? DefaultDbPath() : options_.db_path;
}

Result<DB> Environment::Open(const DBOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(DB db, DB::Open(db_path(), options));
  if (options_.tenant.empty()) return db;
  return db.ForTenant(options_.tenant);
}

Result<DB> Environment::OpenForReading(DBOptions options) {
  options.read_only = true;
  options.create_if_missing = false;
  Result<DB> db = Open(options);
  if (!db.ok() && db.status().code() == StatusCode::kNotFound) {
    return WithAdvice(db.status(), "'attndb import' makes one; --db or ATTNDB_PATH names another");
  }
  return db;
}

Result<DB> Environment::OpenForWriting(bool create, DBOptions options) {
  options.create_if_missing = create;
  if (create) {
    // DB::Open makes the store's own folder; a new user has no data folder above it either.
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(db_path()).parent_path(), ignored);
  }
  const double deadline = MonotonicSeconds() + options_.wait_seconds;
  while (true) {
    Result<DB> db = Open(options);
    if (db.ok()) return db;
    if (db.status().code() == StatusCode::kNotFound) {
      return WithAdvice(db.status(),
                        "'attndb import' makes one; --db or ATTNDB_PATH names another");
    }
    const bool wait = db.status().code() == StatusCode::kBusy && MonotonicSeconds() < deadline;
    if (!wait) return db;
    if (Interrupted()) return Status::Cancelled("interrupted while waiting for another writer");
    usleep(static_cast<useconds_t>(kRetrySeconds * 1e6));
  }
}

Result<DB> Environment::OpenForUse(DBOptions options) {
  Result<DB> db = OpenForWriting(false, options);
  if (db.ok()) return db;
  const StatusCode code = db.status().code();
  if (code != StatusCode::kBusy && code != StatusCode::kReadOnly) return db;
  return OpenForReading(options);
}

void Environment::Print(std::string_view text) const {
  if (!options_.json) std::fwrite(text.data(), 1, text.size(), stdout);
}

void Environment::PrintJson(const Json& json) const {
  if (options_.json) WriteLine(stdout, Dump(json));
}

void Environment::Note(std::string_view text) const {
  if (!options_.quiet) WriteLine(stderr, text);
}

void Environment::Warn(std::string_view text) const {
  WriteLine(stderr, options_.program + ": warning: " + std::string(text));
}

Status Environment::WithAdvice(Status status, std::string advice) {
  advice_ = std::move(advice);
  return status;
}

ExitCode ReportFailure(const Status& status, std::string_view advice,
                       const CommonOptions& options) {
  const ExitCode exit_code = ExitCodeOf(status.code());
  if (options.json) {
    Json error = {{"code", StatusCodeName(status.code())}, {"message", status.message()}};
    if (!advice.empty()) error["advice"] = advice;
    error["exit_code"] = static_cast<int>(exit_code);
    WriteLine(stdout, Dump({{"error", std::move(error)}}));
    return exit_code;
  }
  std::string line = options.program + ": " + status.message();
  if (!advice.empty()) line += "; " + std::string(advice);
  WriteLine(stderr, line);
  return exit_code;
}

}  // namespace attndb::cli
