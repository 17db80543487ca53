// The target of an import: the name and lifetime of the context, and whether it exists already.
//
// Errors:  kInvalidArgument (no name; no such time to live); kAlreadyExists (the name); as DB.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_IMPORT_TARGET_H_
#define ATTNDB_CLI_COMMON_IMPORT_TARGET_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "cli/common/graph_flags.h"
#include "cli/environment.h"
#include "cli/flags.h"

namespace attndb::cli {

class ImportTarget {
 public:
  void AddTo(Flags* flags);

  // Reads the flags; a context without a name gets `default_name`.
  Status Resolve(const std::string& default_name);

  // The same for a context of another name. REQUIRES: Resolve succeeded.
  Result<ImportTarget> Named(const std::string& name) const;

  // The value of --name, before Resolve.
  const std::string& name() const { return options_.name; }
  // REQUIRES: Resolve succeeded.
  const StoreOptions& options() const { return options_; }

  // The context that holds exactly `tokens` of this model from this position on, if there is one:
  // one with a name rather than one without.
  static Result<std::optional<ContextInfo>> FindImported(const DB& db, const ModelSpec& spec,
                                                         std::span<const TokenId> tokens,
                                                         int64_t first_position,
                                                         std::span<const Cut> cuts = {});

  // Checked before the work, which may take an hour. A damaged context of these tokens leaves its
  // name to them.
  Status CheckNameIsFree(const DB& db, std::span<const TokenId> tokens) const;

  // Options to open the store with that the import goes to.
  DBOptions db_options() const;
  // Merges the pieces that a checkpointed import left, as DB::Import does. A merge that is
  // interrupted or has no room is only told: the import is done.
  void MergePieces(Environment* env, const DB& db) const;
  // Waits for the context's planes, which are built as soon as it is stored. An interrupted or
  // failed build is only told: the import is done.
  void FinishPlanes(Environment* env, const DB& db) const;

  // Reports that the context is stored already. Gives it the pin and the TTL that were asked for.
  Result<ExitCode> ReportNothingToDo(Environment* env, const DB& db, const ContextInfo& info) const;

  // The reports of an import that found its context, and of one that ran a text.
  static void PrintNothingToDo(Environment* env, const ContextInfo& info);
  static void PrintImported(Environment* env, const ContextInfo& info, uint64_t num_reused,
                            uint64_t num_run, double seconds,
                            const std::vector<std::string>& evicted);

  // The beginning of every report of an import.
  static Json Summary(const ContextInfo& info);

 private:
  std::string ttl_ = "never";
  bool no_planes_ = false;
  std::string index_;
  uint32_t iterations_ = 0;
  double query_sample_ = DBOptions().query_sample;
  GraphFlags graphs_;
  uint64_t segment_tokens_ = DBOptions().import_segment_tokens;
  StoreOptions options_;
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_IMPORT_TARGET_H_
