// attndb._core.Session: a Session that can be closed and that notices two threads at once.
//
// Threads: any thread may call. A call during another call fails with kFailedPrecondition, except
//          that several attend_part may run at once.
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
  // Runs without the interpreter lock, because it may close the store (db_binding.h).
  ~PySession();
  PySession(const PySession&) = delete;
  PySession& operator=(const PySession&) = delete;

  // Holds the session during one call. Throws StatusError kFailedPrecondition if the session is
  // closed or in use.
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

  // Keeps the arrays of one part of an attend. Other parts may read and write them until all parts
  // have returned, also after this part has failed. A call takes each part once, so an accepted
  // part (`is_of_call`) replaces the same part's arrays of earlier calls. Arrays of a part that may
  // have been refused are kept in addition. ForgetParts drops all.
  // REQUIRES: the interpreter lock.
  void KeepPart(uint32_t part, std::shared_ptr<const void> arrays, bool is_of_call);
  // Throws StatusError kFailedPrecondition if kMaxKept arrays of the part are kept already.
  void CheckMayKeep(uint32_t part) const;
  void ForgetParts() {
    // An array's destructor may run Python. part_arrays_ is empty by then.
    const auto forgotten = std::exchange(part_arrays_, {});
  }

  // REQUIRES: the interpreter lock. Close releases the lock while the session ends.
  void Close();
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kAloneInside = -1;
  static constexpr size_t kMaxKept = 16;  // Limit of the kept arrays of one part.

  std::optional<Session> session_;
  // By part. Guarded by the interpreter lock.
  std::map<uint32_t, std::vector<std::shared_ptr<const void>>> part_arrays_;
  std::atomic<bool> closed_ = false;  // closed() reads it without Use.
  // 0 = no call inside, kAloneInside = one call, n > 0 = n parts of one attend. Acquired on entry
  // and released on exit, so that the next thread sees the changes of the last one.
  std::atomic<int> inside_ = 0;
};

void BindSession(nanobind::module_& module);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_SESSION_BINDING_H_
