// The environment of every command: the common options, the store, and the output of results.
//
// Output:  results go to stdout: text for people, or with --json one JSON object. Notes and
//          progress go to stderr; --quiet silences them.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_ENVIRONMENT_H_
#define ATTNDB_CLI_ENVIRONMENT_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "cli/common/exit_code.h"
#include "cli/common/json.h"

namespace attndb::cli {

class Parser;

// Options of every command.
struct CommonOptions {
  std::string program = "attndb";  // Program that failures and warnings name.
  std::string command;             // "ls"; empty: none is found yet.
  std::string db_path;             // Empty: ATTNDB_PATH, else the user's data folder.
  std::string tenant;              // Empty: the default tenant.
  std::string server;              // URL of a server to ask instead; empty: ATTNDB_URL.
  std::vector<std::string> words;  // The command line, without the program.
  std::vector<std::string> given;  // Flags and arguments on the command line: "--name".
  const Parser* parser = nullptr;  // All commands and flags. Not owned; outlives a run.
  bool json = false;
  bool quiet = false;
  double wait_seconds = 0;  // Seconds to wait for another writer to end.
};

inline constexpr uint32_t kMaxThreads = 1024;  // The most threads of a model.

class Environment {
 public:
  explicit Environment(CommonOptions options) : options_(std::move(options)) {}
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  const CommonOptions& options() const { return options_; }
  bool json() const { return options_.json; }
  // Whether a flag ("--name") or an argument ("question") is on the command line.
  bool IsGiven(std::string_view name) const;
  bool show_progress() const { return !options_.quiet && !options_.json; }
  std::string db_path() const;
  // The server that is asked instead of a store; empty: none. --db is stronger than ATTNDB_URL.
  std::string server() const;
  // For a command that works on a store whatever ATTNDB_URL says.
  // Errors: kInvalidArgument: --server was given.
  Status UseStore();
  // Checks a command that goes to a server: `flags` and the flags of every command.
  // Errors: kInvalidArgument, naming a flag that only the server itself can set.
  Status CheckForServer(std::span<const std::string_view> flags);

  // The tenant's handle on the store. Errors: as DB::Open; kNotFound if there is no store.
  Result<DB> OpenForReading(DBOptions options = {});
  // Options for a command that ends before anything could be built in the background.
  static DBOptions Brief() { return {.background_builds = false}; }
  // A new store is made if `create`. Waits up to --wait for another writer.
  Result<DB> OpenForWriting(bool create, DBOptions options = Brief());
  // Waits for the other writer for as long as that takes, or until a signal.
  Result<DB> ReopenForWriting(DBOptions options);
  // Opens the store for writing, or for reading beside another writer: for commands that also work
  // without writing.
  Result<DB> OpenForUse(DBOptions options = {});

  void Print(std::string_view text) const;  // Prints nothing with --json.
  void PrintJson(const Json& json) const;   // Prints nothing without --json.
  void PrintJson(std::initializer_list<JsonField> fields) const { PrintJson(JsonObject(fields)); }
  // From here on, PrintJson collects its values. EndList prints all of them as one object: under
  // `name`, before `rest`.
  void BeginList();
  void EndList(const std::string& name, const Json& rest);
  // Reports a failure with `file` that does not end the command: on stderr, and in the list.
  ExitCode NoteFailure(const std::string& file, const Status& status);
  void Note(std::string_view text) const;  // A line on stderr, unless --quiet.
  void Warn(std::string_view text) const;  // A line on stderr, always.

  // Returns `status` and keeps `advice` for the user instead of the advice for its kind (advice.h).
  Status WithAdvice(Status status, std::string advice);
  const std::string& advice() const { return advice_; }
  // The advice that was kept for this failure, else the advice for its kind. Advice that was kept
  // for a failure from which a command recovered is not used for others.
  std::string AdviceOn(const Status& status) const;

 private:
  Result<DB> Open(const DBOptions& options);
  Result<DB> OpenWaiting(bool create, DBOptions options, double seconds);
  // Advice for a store that another process writes to.
  std::string AdviceForBusy(const Status& status) const;

  const CommonOptions options_;
  bool uses_store_ = false;
  std::string advice_;
  std::string advised_;  // The message of the failure that the advice is for.
  mutable std::optional<Json> list_;
};

// Writes a failure as "<program>: <failure>; <advice>", or as {"error": ...} with --json.
ExitCode ReportFailure(const Status& status, std::string_view advice, const CommonOptions& options);

// The process name of `attndb serve`: the message about a store in use shows it. As long as the
// kernel permits: proc(5), comm. And the file in the store that has the server's URL.
inline constexpr char kServingName[] = "attndb serve";
inline constexpr char kServingFile[] = "SERVER";

// The value of an environment variable; empty if it is not set.
std::string EnvironmentText(const char* name);

// The mistakes in attndb's variables that have a choice of values: "ATTNDB_ISA: expected scalar,
// avx2, avx512 or avx512vnni, found 'neon'".
std::vector<std::string> VariableFaults();

// $ATTNDB_PATH, else $XDG_DATA_HOME/attndb, else ~/.local/share/attndb. Empty: there is no home
// folder.
std::string DefaultDbPath();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_ENVIRONMENT_H_
