// An open store, shared by all of its DB handles and sessions. Creates and connects the parts of
// the library.
//
// Parts:   opening is here; sessions in open_session.cc, over several contexts in session_over.cc;
//          finding passages in find.cc.
// Threads: thread-safe: each part has its own locks, and none is held here.
#ifndef ATTNDB_API_DATABASE_H_
#define ATTNDB_API_DATABASE_H_

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/registry.h"
#include "attention/scratch_pool.h"
#include "attndb/db.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/stats.h"
#include "attndb/types.h"
#include "common/fork_count.h"
#include "common/thread_pool.h"
#include "derived/kinds.h"
#include "planner/machine_constants.h"
#include "planner/plan_registry.h"
#include "prices/hints.h"
#include "prices/machine_prices.h"
#include "session/session_handle.h"
#include "session/session_impl.h"
#include "storage/io/file_system.h"
#include "storage/kv/memory_budget.h"
#include "store/context_store.h"

namespace attndb::internal {

class Database : public std::enable_shared_from_this<Database>, public SessionHost {
 public:
  // Replaces the registry of plans, their prices, the row source, and the machine's memory.
  struct Planning {
    // Null: the plans of this version.
    std::shared_ptr<const planner::PlanRegistry> registry;
    std::shared_ptr<const attention::Registry> operators;
    std::optional<planner::MachineConstants> machine;  // Empty: this machine's constants.
    // Makes the source of a session's stored rows. Null: layers that stay in memory.
    std::function<std::unique_ptr<storage::ChainSource>()> make_rows;
    std::string machine_root;  // The root of the files that tell the free memory.
  };

  // `file_system` must outlive the database.
  static Result<std::shared_ptr<Database>> Open(const std::string& path, const DBOptions& options,
                                                storage::FileSystem* file_system,
                                                Planning planning = {});
  ~Database() override;

 private:
  class Key {  // Only Open can make one: the constructor is public for make_unique alone.
    friend class Database;
    Key() = default;
  };

 public:
  Database(Key key, const std::string& path, const DBOptions& options,
           storage::FileSystem* file_system, Planning planning);

  // Ok in the process that opened the store. A forked child has neither the store's threads nor its
  // lock, and its copy of the memory may contain mutexes that are locked for ever. It may call no
  // other function.
  // Errors: kFailedPrecondition.
  Status CheckProcess() const;

  // --- As the functions of DB, for the tenant with that name. ---

  // Reuses at most `max_reuse` stored tokens.
  Result<std::unique_ptr<SessionImpl>> OpenSession(const std::string& tenant, const ModelSpec& spec,
                                                   std::span<const TokenId> tokens,
                                                   uint64_t max_reuse,
                                                   const SessionOptions& options);
  Result<std::unique_ptr<SessionImpl>> OpenSessionOver(const std::string& tenant,
                                                       const ModelSpec& spec,
                                                       std::span<const std::string> contexts,
                                                       const SessionOptions& options);
  // Opens a session that holds exactly a whole context, under the spec that it was stored with.
  // Errors: kNotFound; kCorruption.
  Result<std::unique_ptr<SessionImpl>> OpenWhole(const std::string& tenant,
                                                 std::string_view context);
  Result<ContextNumber> Store(SessionImpl* session, std::span<const TokenId> tokens,
                              const StoreOptions& options);
  // Moves the session's tail into a segment that no context has yet, and returns the segment.
  // `sealed` lists the results of earlier calls; the last call is a StoreSealed, or an Abandon.
  // `tokens` are the session's tokens.
  Result<store::SegmentRecord> Seal(SessionImpl* session, std::span<const TokenId> tokens,
                                    std::span<const store::SegmentRecord> sealed);
  // Like Store, with all sealed segments.
  Result<ContextNumber> StoreSealed(SessionImpl* session, std::span<const TokenId> tokens,
                                    std::span<const store::SegmentRecord> sealed,
                                    const StoreOptions& options);
  // The session continues meanwhile; see PendingStore.
  Result<std::shared_future<Result<ContextId>>> StoreAsync(SessionImpl* session,
                                                           std::span<const TokenId> tokens,
                                                           const StoreOptions& options);
  Result<PrefixExplain> ExplainPrefix(const std::string& tenant, const ModelSpec& spec,
                                      std::span<const TokenId> tokens,
                                      const SessionOptions& options) const;
  Result<RoomReport> CheckRoom(const std::string& tenant, const ModelSpec& spec,
                               std::span<const TokenId> tokens, const RoomOptions& options);
  Result<FindResult> FindPassages(const std::string& tenant, const ModelSpec& spec,
                                  const FindQuery& query, const FindOptions& options);
  Result<BuildReport> Build(const std::string& tenant, std::string_view context,
                            std::string_view index, const BuildOptions& options);
  Result<DBStats> Stats(const std::string& tenant, bool of_all);

  // --- SessionHost. ---

  const SessionParts& parts() const override { return session_parts_; }
  const SessionSettings& settings() const override { return session_settings_; }
  void AskForPrices() override;
  Status WaitFor(std::span<const derived::Lanes::AddedPtr> jobs,
                 const WaitOptions& options) override {
    return store_->background()->WaitFor(jobs, options.progress);
  }
  void NoteDamage(const storage::Segment& segment, const Status& status) override {
    store_->damage()->Note(segment, status);
  }
  void SessionOpened(const std::string& tenant) override;
  void SessionClosed(const std::string& tenant) override;
  std::shared_ptr<const void> Hold(ContextId context) override {
    return store_->uses()->Hold(context);
  }
  std::optional<std::vector<storage::ChainEntry>> Renew(
      std::span<const storage::ChainEntry> chain) const override {
    return store_->merged_runs().Renew(chain);
  }
  void LetGo(HeldChain held) override;
  std::optional<ContextStatistics> FindLearned(ContextId context) const override {
    return hints_.FindContext(context);
  }
  void KeepLearned(ContextId context, const ContextStatistics& learned) override {
    hints_.NoteContext(context, learned);
  }

  // --- The parts of the library, for DB and for tests. ---

  const DBOptions& options() const { return options_; }
  store::ContextStore* store() { return store_.get(); }
  const store::ContextStore& store() const { return *store_; }
  const planner::PlanRegistry& plans() const { return *planning_.registry; }
  const derived::Kinds& kinds() const { return kinds_; }
  Hints* hints() { return &hints_; }
  MachinePrices* prices() { return &prices_; }

 private:
  // Opens the store. `index_use` is the use of options.index.
  Status OpenStore(const std::string& path, const std::string& index_use);
  SessionParts PartsOfSessions();
  std::shared_ptr<const void> ReserveForPrices(uint64_t bytes);
  // Moves idle sessions to merged chains, in the background.
  void MoveIdleSessions();

  // Like FindPassages. Has released all segments when it returns.
  Result<FindResult> SearchStored(const std::string& tenant, const ModelSpec& spec,
                                  const FindQuery& query, const FindOptions& options);

  // All parts of a session's seed except its chain.
  Result<SessionSeed> SeedOf(const std::string& tenant, const ModelSpec& spec,
                             const SessionOptions& options);

  // In a forked child the store's memory is left as it is.
  struct CloseInOwnProcess {
    void operator()(Database* database) const {
      if (database->CheckProcess().ok()) std::default_delete<Database>()(database);
    }
  };

  const uint64_t fork_count_ = ForkCount();
  const DBOptions options_;
  storage::FileSystem* const file_system_;
  const Planning planning_;
  storage::MemoryBudget budget_;
  attention::ScratchPool scratch_{&budget_};
  const derived::Kinds kinds_;
  ThreadPool pool_;
  Hints hints_;
  MachinePrices prices_;
  SessionList sessions_;
  std::atomic<bool> moves_sessions_ = false;    // Whether a job that will move them was added.
  std::unique_ptr<store::ContextStore> store_;  // Constant after Open.
  SessionParts session_parts_;                  // Constant after Open.
  const SessionSettings session_settings_;
};

// Errors: kInvalidArgument (no token, or one that is negative).
Status CheckPrompt(std::span<const TokenId> tokens);

// Fills in the spec's defaults: identity and arithmetic are built on the result.
ModelSpec Resolve(ModelSpec spec);

}  // namespace attndb::internal

#endif  // ATTNDB_API_DATABASE_H_
