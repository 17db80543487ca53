#include "cli/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "cli/common/advice.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/variables.h"
#include "cli/common/waiters.h"

namespace attndb::cli {
namespace {

constexpr double kRetrySeconds = 0.2;

void WriteLine(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stream);
}

Json ErrorJson(const Status& status, std::string_view advice) {
  Json error = JsonObject({{"code", StatusCodeName(status.code())}, {"message", status.message()}});
  if (!advice.empty()) error["advice"] = advice;
  error["exit_code"] = static_cast<int>(ExitCodeOf(status.code()));
  return error;
}

constexpr char kAskTheServer[] =
    "ask that server: --server URL, or ATTNDB_URL, with the URL that 'attndb serve' has shown";

// Options that say how to run, whatever is asked.
constexpr std::array<std::string_view, 5> kEveryCommand = {"--server", "--json", "--quiet",
                                                           "--wait", "--db"};

}  // namespace

std::string EnvironmentText(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> VariableFaults() {
  std::vector<std::string> faults;
  const auto expect = [&faults](const char* name, const std::string& what, const auto& is_good) {
    const std::string value = EnvironmentText(name);
    if (value.empty() || is_good(value)) return;
    faults.push_back(std::string(name) + ": expected " + what + ", found '" + value + "'");
  };
  expect("ATTNDB_THREADS", "a whole number from 1 to " + std::to_string(kMaxThreads),
         [](const std::string& value) {
           uint32_t count = 0;
           const char* const end = value.data() + value.size();
           const auto [rest, error] = std::from_chars(value.data(), end, count);
           return error == std::errc() && rest == end && count >= 1 && count <= kMaxThreads;
         });
  expect("ATTNDB_ISA", "scalar, avx2, avx512 or avx512vnni", [](const std::string& value) {
    constexpr std::array<std::string_view, 4> kNames = {"scalar", "avx2", "avx512", "avx512vnni"};
    return std::ranges::find(kNames, value) != kNames.end();
  });
  return faults;
}

std::string DefaultDbPath() {
  if (const std::string path = EnvironmentText("ATTNDB_PATH"); !path.empty()) return path;
  if (const std::string data = EnvironmentText("XDG_DATA_HOME"); !data.empty()) {
    return data + "/attndb";
  }
  const std::string home = HomeFolder();
  return home.empty() ? "" : home + "/.local/share/attndb";
}

bool Environment::IsGiven(std::string_view name) const {
  return std::ranges::find(options_.given, name) != options_.given.end();
}

std::string Environment::db_path() const {
  return WithHome(options_.db_path.empty() ? DefaultDbPath() : options_.db_path);
}

std::string Environment::server() const {
  if (!options_.server.empty()) return options_.server;
  return uses_store_ || !options_.db_path.empty() ? "" : EnvironmentText("ATTNDB_URL");
}

Status Environment::UseStore() {
  uses_store_ = true;
  if (options_.server.empty()) return Status::Ok();
  return Status::InvalidArgument("--server: this command works without a server");
}

Status Environment::CheckForServer(std::span<const std::string_view> flags) {
  if (!options_.db_path.empty()) {
    return Status::InvalidArgument("--db and --server exclude each other");
  }
  if (!options_.tenant.empty()) {
    return Status::InvalidArgument("--tenant: a server tells tenants by their keys (ATTNDB_KEY)");
  }
  for (const std::string& given : options_.given) {
    const auto is_given = [&given](std::string_view flag) { return flag == given; };
    if (std::ranges::any_of(flags, is_given) || std::ranges::any_of(kEveryCommand, is_given)) {
      continue;
    }
    return Status::InvalidArgument(given + " can't be asked of a server");
  }
  return Status::Ok();
}

Result<DB> Environment::Open(const DBOptions& options) {
  if (!server().empty()) {
    return WithAdvice(
        Status::Unsupported("this command works on a store, and not through " + server()),
        "run it where the store is, with --db PATH");
  }
  if (db_path().empty()) {
    return WithAdvice(Status::InvalidArgument("no store is named, and the user has no home folder"),
                      "name a store with --db PATH or ATTNDB_PATH");
  }
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
  return OpenWaiting(create, std::move(options), options_.wait_seconds);
}

Result<DB> Environment::ReopenForWriting(DBOptions options) {
  return OpenWaiting(true, std::move(options), std::numeric_limits<double>::infinity());
}

Result<DB> Environment::OpenWaiting(bool create, DBOptions options, double seconds) {
  options.create_if_missing = create;
  if (create) {
    // DB::Open makes the store's own folder; a new user has no data folder above it either.
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(db_path()).parent_path(), ignored);
  }
  constexpr double kNoteSeconds = 2;
  const double start = MonotonicSeconds();
  const double deadline = start + seconds;
  bool is_told = std::isfinite(seconds);  // A user who gave --wait knows.
  Waiter waiter;
  while (true) {
    Result<DB> db = Open(options);
    if (db.ok()) return db;
    if (db.status().code() == StatusCode::kNotFound) {
      return WithAdvice(db.status(),
                        "'attndb import' makes one; --db or ATTNDB_PATH names another");
    }
    const bool is_busy = db.status().code() == StatusCode::kBusy;
    if (!is_busy || MonotonicSeconds() >= deadline) {
      const std::string advice = is_busy ? AdviceForBusy(db.status()) : "";
      return advice.empty() ? db : WithAdvice(db.status(), advice);
    }
    if (Interrupted()) return Status::Cancelled("interrupted while waiting for another writer");
    waiter.Wait(db_path());
    if (!is_told && MonotonicSeconds() - start >= kNoteSeconds) {
      is_told = true;
      Note("waiting until the store is free: " + db.status().message());
    }
    usleep(static_cast<useconds_t>(kRetrySeconds * 1e6));
  }
}

std::string Environment::AdviceForBusy(const Status& status) const {
  if (status.message().find(kServingName) == std::string::npos) return "";
  constexpr size_t kMaxUrlBytes = 200;
  std::string url;
  std::getline(std::ifstream(db_path() + "/" + kServingFile), url);
  const bool is_url = url.starts_with("http") && url.size() <= kMaxUrlBytes &&
                      std::ranges::all_of(url, [](char c) { return c > ' ' && c <= '~'; });
  if (!is_url) return kAskTheServer;
  return "ask that server: --server " + url + ", or set ATTNDB_URL to it";
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
  if (list_) {
    list_->push_back(json);
  } else if (options_.json) {
    WriteLine(stdout, Dump(json));
  }
}

void Environment::BeginList() { list_ = Json::array(); }

void Environment::EndList(const std::string& name, const Json& rest) {
  Json all = {{name, *std::exchange(list_, std::nullopt)}};
  all.update(rest);
  PrintJson(all);
}

ExitCode Environment::NoteFailure(const std::string& file, const Status& status) {
  const std::string advice = AdviceOn(status);
  if (list_ && options_.json) {
    list_->push_back(JsonObject({{"file", file}, {"error", ErrorJson(status, advice)}}));
    return ExitCodeOf(status.code());
  }
  const bool is_named = status.message().find(file) != std::string::npos;
  WriteLine(stderr, options_.program + ": " + (is_named ? "" : "'" + file + "': ") +
                        status.message() + (advice.empty() ? "" : "; " + advice));
  return ExitCodeOf(status.code());
}

void Environment::Note(std::string_view text) const {
  if (!options_.quiet) WriteLine(stderr, text);
}

void Environment::Warn(std::string_view text) const {
  WriteLine(stderr, options_.program + ": warning: " + std::string(text));
}

Status Environment::WithAdvice(Status status, std::string advice) {
  advice_ = std::move(advice);
  advised_ = status.message();
  return status;
}

std::string Environment::AdviceOn(const Status& status) const {
  if (!advice_.empty() && status.message().ends_with(advised_)) return advice_;
  const bool has_server = !server().empty();
  return std::string(AdviceFor(status, {.command = options_.command,
                                        .store_path = has_server ? "" : db_path(),
                                        .through_server = has_server}));
}

ExitCode ReportFailure(const Status& status, std::string_view advice,
                       const CommonOptions& options) {
  const ExitCode exit_code = ExitCodeOf(status.code());
  if (options.json) {
    WriteLine(stdout, Dump({{"error", ErrorJson(status, advice)}}));
    return exit_code;
  }
  std::string line = options.program + ": " + status.message();
  if (!advice.empty()) line += "; " + std::string(advice);
  WriteLine(stderr, line);
  return exit_code;
}

}  // namespace attndb::cli
