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

// The list is let go of after each, so that sessions can be opened and closed meanwhile.
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
    : session_(std::move(session)), list_(session_->list()) {
  list_->Add(this);
}

SessionHandle::~SessionHandle() { list_->Remove(this); }

void SessionHandle::MoveIfIdle() {
  move_is_due_.store(true);
  if (!gate_.TryClose()) return;
  move_is_due_.store(false);
  session_->TakeChains();
  gate_.Open();
}

}  // namespace attndb::internal
