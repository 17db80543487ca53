// attndb._core.Session: a Session that can be closed and that notices two threads at once.
//
// Threads: any may call; one that finds another inside gets kFailedPrecondition. attend_part may
//          run beside attend_part.
#ifndef ATTNDB_PYTHON_SRC_SESSION_BINDING_H_
#define ATTNDB_PYTHON_SRC_SESSION_BINDING_H_

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "attndb/session.h"

namespace attndb::python {

class PySession {
 public:
  explicit PySession(Session session) : session_(std::move(session)) {}
  // Without the interpreter lock: it may be the last to hold the store (db_binding.h).
  ~PySession();
  PySession(const PySession&) = delete;
  PySession& operator=(const PySession&) = delete;

  // The session, for the time of one call. Throws StatusError kFailedPrecondition: it is closed, or
  // in use.
  class Use {
   public:
    enum class Kind { kAlone, kPart };
    explicit Use(PySession& owner, Kind kind = Kind::kAlone);
    Use(Use&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use();
    Session& operator*() const { return *owner_->session_; }
    Session* operator->() const { return &*owner_->session_; }

   private:
    PySession* owner_;
  };

  // Keeps the arrays that a part of an attend was given: other parts may read and write them after
  // it has returned or failed, until all have. A call takes each part once: a part that is of a
  // call (`is_of_call`) replaces the part's arrays of earlier calls. Arrays of a part that may have
  // been refused are kept beside them. ForgetParts drops all. Called with the interpreter lock
  // held.
  void KeepPart(uint32_t part, std::shared_ptr<const void> arrays, bool is_of_call);
  // Throws StatusError kFailedPrecondition: kMaxKept arrays of the part are kept.
  void CheckMayKeep(uint32_t part) const;
  void ForgetParts() {
    // An array's destructor may run Python, which finds no part any more.
    const auto forgotten = std::exchange(part_arrays_, {});
  }

  // Called with the interpreter lock held; lets it go while the session ends.
  void Close();
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kAloneInside = -1;
  static constexpr size_t kMaxKept = 16;  // Arrays of a part, of one call or refused.

  std::optional<Session> session_;
  // By part. Under the interpreter lock.
  std::map<uint32_t, std::vector<std::shared_ptr<const void>>> part_arrays_;
  std::atomic<bool> closed_ = false;  // Read without Use; only says what Use would.
  // 0 = nobody inside, kAloneInside = one call, n > 0 = n parts of one attend. Acquired on entry
  // and released on exit, so that what one thread did to the session is seen by the next.
  std::atomic<int> inside_ = 0;
};

void BindSession(nanobind::module_& module);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_SESSION_BINDING_H_
