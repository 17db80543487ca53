// A session as its owner holds it, and the list of all such sessions of a DB. While no call uses a
// session, another thread can move it to a chain that was stored or merged in the background. The
// session then releases the files that it read before.
//
// Threads: SessionList and MoveIdle are thread-safe. Calls of a session follow its contract
//          (attndb/session.h). In addition, another thread may move a session, but only while no
//          call uses it.
#ifndef ATTNDB_SESSION_SESSION_HANDLE_H_
#define ATTNDB_SESSION_SESSION_HANDLE_H_

#include <atomic>
#include <memory>
#include <set>
#include <utility>

#include "attndb/status.h"
#include "common/fork_count.h"
#include "common/mutex.h"
#include "session/idle_gate.h"
#include "session/session_impl.h"

namespace attndb::internal {

class SessionHandle;

class SessionList {
 public:
  void Add(SessionHandle* session) ATTNDB_EXCLUDES(mutex_);
  // Waits for the session's move, if one is under way.
  void Remove(SessionHandle* session) ATTNDB_EXCLUDES(mutex_);
  // Moves each session that no call is using. Other sessions move in their next step.
  void MoveIdle() ATTNDB_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::set<SessionHandle*> sessions_ ATTNDB_GUARDED_BY(mutex_);
};

class SessionHandle {
 public:
  // Marks the session as in use until the end of the full expression, or while this object lives.
  class Use {
   public:
    explicit Use(SessionHandle* handle) : handle_(handle) {
      if (handle_->is_here()) handle_->gate_.Enter();
    }
    ~Use() { handle_->EndUse(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    SessionImpl* operator->() const { return handle_->session_.get(); }
    SessionImpl* get() const { return handle_->session_.get(); }

   private:
    SessionHandle* const handle_;
  };

  explicit SessionHandle(std::unique_ptr<SessionImpl> session);
  ~SessionHandle();
  SessionHandle(const SessionHandle&) = delete;
  SessionHandle& operator=(const SessionHandle&) = delete;

  Use InUse() { return Use(this); }

  // Ok in the process that opened the session. A forked child may only read fields.
  // Errors: kFailedPrecondition.
  Status CheckProcess() const;

 private:
  friend class SessionList;
  // If the session is in use, its last user moves it.
  void MoveIfIdle();
  void EndUse() {
    if (!is_here()) return;
    gate_.Leave();
    if (move_is_due_.load()) MoveIfIdle();
  }

  bool is_here() const { return ForkCount() == fork_count_; }

  const uint64_t fork_count_ = ForkCount();
  std::unique_ptr<SessionImpl> session_;  // Constant until a forked child releases it.
  SessionList* const list_;
  IdleGate gate_;
  // Set before the gate is tried, and read after it is left, both sequentially consistent. So the
  // last user sees the flag of a thread that found the session in use.
  std::atomic<bool> move_is_due_ = false;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_SESSION_HANDLE_H_
