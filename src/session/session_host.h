// A session's interface to its DB. It is as small as possible, so that sessions know no catalog and
// no file.
//
// Threads: thread-safe.
#ifndef ATTNDB_SESSION_SESSION_HOST_H_
#define ATTNDB_SESSION_SESSION_HOST_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attention/registry.h"
#include "attention/scratch_pool.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "common/thread_pool.h"
#include "derived/builder.h"
#include "derived/cache.h"
#include "derived/kinds.h"
#include "derived/lanes.h"
#include "planner/learned_state.h"
#include "planner/machine_constants.h"
#include "planner/plan_registry.h"
#include "session/session_chain.h"
#include "storage/kv/chain_entry.h"
#include "storage/kv/chain_source.h"
#include "storage/kv/memory_budget.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

class SessionList;

// The objects that all sessions of a DB share.
struct SessionParts {
  SessionList* sessions = nullptr;  // The sessions that callers hold: see session_handle.h.
  const planner::PlanRegistry* plans = nullptr;
  const attention::Registry* operators = nullptr;
  attention::ScratchPool* scratch = nullptr;
  storage::MemoryBudget* budget = nullptr;
  std::function<std::unique_ptr<storage::ChainSource>()>
      make_rows;  // Makes the source that a session reads through.
  const derived::Kinds* kinds = nullptr;
  const derived::Cache* objects = nullptr;
  derived::Builder* builder = nullptr;
  ThreadPool* pool = nullptr;
  // The number of merges since the store was opened: see SessionHost::Renew.
  const std::atomic<uint64_t>* num_merged = nullptr;
  // The prices of plans, as far as they are known. Each lives as long as the host.
  const std::atomic<const planner::MachineConstants*>* machine = nullptr;
};

// The DBOptions that sessions read.
struct SessionSettings {
  uint32_t dense_query_tokens = 64;
  uint64_t host_memory_bytes = 0;
  double query_sample = 0;
  // Whether sessions learn from the costs of calls: DBOptions::measure_machine.
  bool learns = true;
};

class SessionHost {
 public:
  virtual ~SessionHost() = default;

  // Both references are valid as long as the host.
  virtual const SessionParts& parts() const = 0;
  virtual const SessionSettings& settings() const = 0;

  // Asks for a measurement of this machine in the background, if there is none and it is allowed.
  virtual void AskForPrices() = 0;
  // Waits until these jobs of the builder are over; the caller may run some of them. Errors: the
  // jobs' errors; kCancelled, if options.progress ends the wait.
  virtual Status WaitFor(std::span<const derived::Lanes::AddedPtr> jobs,
                         const WaitOptions& options) = 0;
  // Reports that the segment's rows could not be read. If `status` says that its bytes are wrong,
  // the segment will be quarantined: in the background, or by the next call that reads the catalog.
  virtual void NoteDamage(const storage::Segment& segment, const Status& status) = 0;

  // Counts a tenant's sessions. A session that closes has already released its chain and its hold.
  virtual void SessionOpened(const std::string& tenant) = 0;
  virtual void SessionClosed(const std::string& tenant) = 0;
  // Keeps the context from being evicted while the result lives, and counts the call as an access.
  // Null for no context.
  virtual std::shared_ptr<const void> Hold(ContextId context) = 0;
  // Returns the chain with merged segments in place of its runs; nothing if no run was merged.
  // SessionParts::num_merged tells when to ask again.
  virtual std::optional<std::vector<storage::ChainEntry>> Renew(
      std::span<const storage::ChainEntry> chain) const = 0;
  // Releases in the background the chain that a session left, and files that have no readers any
  // more.
  virtual void LetGo(HeldChain held) = 0;

  // The knowledge of earlier sessions of the context, kept for the next one.
  virtual std::optional<planner::LearnedState::Layers> FindLearned(ContextId context) const = 0;
  virtual void KeepLearned(ContextId context, const planner::LearnedState::Layers& learned) = 0;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_SESSION_HOST_H_
