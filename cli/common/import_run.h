// One run of a document through the model, from the stored part to its end, with checkpoints. If
// another process waits for the store, the run stores its progress, closes the store, and continues
// when the store is free again.
//
// Errors:  kCancelled after a signal: finished work is stored. Others as Prefill, Store and Open.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_IMPORT_RUN_H_
#define ATTNDB_CLI_COMMON_IMPORT_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "cli/common/prefill_cost.h"
#include "cli/environment.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

class ImportRun {
 public:
  // The store, and how it is opened again, which may wait.
  struct Store {
    std::optional<DB>* db = nullptr;
    std::function<Result<DB>()> open;
    // Checks that the import may continue after other processes wrote to the store. May be null.
    std::function<Status(const DB&)> check = nullptr;
    uint64_t* num_noted = nullptr;  // See NoteEvicted; 0 for a reopened store.
  };

  // All must outlive it. No other code has the store open when it is closed. If the store can't be
  // reopened, `db` stays empty.
  ImportRun(Environment* env, Store store, llama::LlamaEngine* engine,
            std::span<const TokenId> tokens)
      : env_(env), store_(std::move(store)), engine_(engine), tokens_(tokens) {}

  // For DB::CheckRoom: a checkpoint comes after a whole pass at the earliest.
  static RoomOptions RoomOf(const llama::LlamaEngine& engine, uint64_t checkpoint_tokens);

  Result<ContextId> Run(uint64_t checkpoint_tokens, const StoreOptions& store_options);

  uint64_t num_reused() const { return num_reused_; }
  uint64_t num_run() const { return num_run_; }
  uint64_t num_stored() const { return num_stored_; }  // Tokens that an interrupted run has stored.
  double seconds() const { return seconds_; }
  // The times of the prefill since the store was last opened.
  const PrefillTimes& times() const { return times_; }
  // The contexts that were evicted, and reported, before the store was last opened.
  const std::vector<std::string>& evicted() const { return evicted_; }

 private:
  // Like Run, until the store must be closed. Returns nothing if it was closed.
  Result<std::optional<ContextId>> RunOn(uint64_t checkpoint_tokens,
                                         const StoreOptions& store_options);
  // Decides whether later checkpoints drop the base. An unnamed context that the document
  // continues as a whole is an earlier checkpoint, and is dropped when a later one exists. A
  // context that only shares the document's beginning belongs to another import.
  Status FindBase(const Session& session);
  Status Prefill(Session* session, std::span<const TokenId> rest, uint64_t checkpoint_tokens);
  // Called after tokens_done of `num_rest` tokens.
  Status Checkpoint(Session* session, uint64_t tokens_done, uint64_t num_rest,
                    uint64_t checkpoint_tokens);
  Status StoreCheckpoint(Session* session);
  Status StoreInterrupted(Session* session);
  Status LetOthersPass();
  // Closes the store and waits until a waiting process has it, or a signal comes.
  void LetGo();
  Status Interruption() const;

  Environment* const env_;
  const Store store_;
  llama::LlamaEngine* const engine_;
  const std::span<const TokenId> tokens_;
  TextLayout text_;  // The messages that the tokens belong to.
  uint64_t num_reused_ = 0;
  uint64_t num_run_ = 0;
  uint64_t num_stored_ = 0;
  double seconds_ = 0;
  PrefillTimes times_;
  double start_seconds_ = 0;  // When the run began, or went on.
  std::vector<std::string> evicted_;
  uint64_t last_checkpoint_ = 0;  // Tokens of the rest.
  bool lets_pass_ = false;        // Whether the prefill ended since another process waits.
  bool has_begun_ = false;
  bool drop_base_ = false;
  bool resumes_ = false;  // It continues a checkpoint.
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_IMPORT_RUN_H_
