#include "session/session_handle.h"

namespace attndb::internal {

void SessionList::Add(SessionHandle* session) {
  MutexLock lock(&mutex_);
  sessions_.insert(session);
}

void SessionList::Remove(SessionHandle* session) {
  MutexLock lock(&mutex_);
  sessions_.erase(session);
}

// Releases the list's mutex after each session, so that sessions can be opened and closed
// meanwhile.
void SessionList::MoveIdle() {
  SessionHandle* last = nullptr;
  for (;;) {
    MutexLock lock(&mutex_);
    const auto next = sessions_.upper_bound(last);
    if (next == sessions_.end()) return;
    last = *next;
    last->MoveIfIdle();
  }
}

SessionHandle::SessionHandle(std::unique_ptr<SessionImpl> session)
    : session_(std::move(session)), list_(session_->parts().sessions) {
  list_->Add(this);
}

SessionHandle::~SessionHandle() {
  if (is_here()) {
    list_->Remove(this);
  } else {
    (void)session_.release();  // Its memory is left as it is: a fork has no part in it.
  }
}

Status SessionHandle::CheckProcess() const {
  if (is_here()) return Status::Ok();
  return Status::FailedPrecondition(
      "the session was opened before this process was forked off, and can be used only there; open "
      "the store and a session after the fork, or in processes that are started anew");
}

void SessionHandle::MoveIfIdle() {
  move_is_due_.store(true);
  if (!gate_.TryClose()) return;
  move_is_due_.store(false);
  session_->TakeChains();
  gate_.Open();
}

}  // namespace attndb::internal
