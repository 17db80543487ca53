// What every command gets: the common options, the store, and the one way to write results.
//
// Output:  results go to stdout: text for people, or with --json one JSON object. Notes and
//          progress go to stderr; --quiet silences them.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_ENVIRONMENT_H_
#define ATTNDB_CLI_ENVIRONMENT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "attndb/db.h"
#include "attndb/result.h"
#include "cli/common/exit_code.h"

namespace attndb::cli {

using Json = nlohmann::ordered_json;

// Options of every command.
struct CommonOptions {
  std::string program = "attndb";  // Program that failures and warnings name.
  std::string db_path;             // Empty: ATTNDB_PATH, else the user's data folder.
  std::string tenant;              // Empty: the default tenant.
  bool json = false;
  bool quiet = false;
  double wait_seconds = 0;  // Seconds to wait for another writer to end.
};

class Environment {
 public:
  explicit Environment(CommonOptions options) : options_(std::move(options)) {}
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  const CommonOptions& options() const { return options_; }
  bool json() const { return options_.json; }
  bool show_progress() const { return !options_.quiet && !options_.json; }
  std::string db_path() const;

  // The tenant's handle on the store. Errors: as DB::Open; kNotFound if there is no store.
  Result<DB> OpenForReading(DBOptions options = {});
  // Options for a command that ends before anything could be built in the background.
  static DBOptions Brief() { return {.background_builds = false}; }
  // A new store is made if `create`. Waits up to --wait for another writer.
  Result<DB> OpenForWriting(bool create, DBOptions options = Brief());
  // Opens the store to write, or to read beside another writer: for commands that are right without
  // a write.
  Result<DB> OpenForUse(DBOptions options = {});

  void Print(std::string_view text) const;  // Prints nothing with --json.
  void PrintJson(const Json& json) const;   // Prints nothing without --json.
  void Note(std::string_view text) const;   // A line on stderr, unless --quiet.
  void Warn(std::string_view text) const;   // A line on stderr, always.

  // Returns `status` and keeps `advice` for the user instead of the general one of its code.
  Status WithAdvice(Status status, std::string advice);
  const std::string& advice() const { return advice_; }

 private:
  Result<DB> Open(const DBOptions& options);

  const CommonOptions options_;
  std::string advice_;
};

// Writes a failure as "<program>: <what>; <what to do>", or as {"error": ...} with --json.
ExitCode ReportFailure(const Status& status, std::string_view advice, const CommonOptions& options);

// One line of JSON; bytes that are not UTF-8 become U+FFFD.
std::string Dump(const Json& json);

// $ATTNDB_PATH, else $XDG_DATA_HOME/attndb, else ~/.local/share/attndb.
std::string DefaultDbPath();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_ENVIRONMENT_H_
