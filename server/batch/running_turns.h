// Turns that clients may control while they reply, by the ids of the first turns of their answers.
//
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_BATCH_RUNNING_TURNS_H_
#define ATTNDB_SERVER_BATCH_RUNNING_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/batch/turn.h"

namespace attndb::server {

class RunningTurns {
 public:
  enum class Found : uint8_t {
    kNone,   // No turn of the tenant with this id is under way.
    kFixed,  // Its request did not ask for control.
    kDone,
  };

  // The turn and its choices are found until they are gone. Call it before a scheduler has the
  // turn. `is_controlled`: the request asked for control.
  void Add(const std::shared_ptr<Turn>& turn, bool is_controlled);
  // Ends the thinking of all choices that are under way and think.
  Found EndThinking(const std::string& tenant, const std::string& id);

 private:
  struct Entry {
    std::vector<std::weak_ptr<Turn>> choices;
    bool is_controlled = false;
  };
  using Key = std::pair<std::string, std::string>;  // Tenant and id.

  static bool IsGone(const Entry& entry);

  std::mutex mutex_;
  std::multimap<Key, Entry> entries_;  // Guarded by mutex_, like the next one.
  size_t num_at_sweep_ = 64;  // When there are this many entries, Add erases those that are gone.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_RUNNING_TURNS_H_
