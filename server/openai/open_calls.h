// The calls of tools that a conversation has so far, and which of them have their results.
//
// A model may give its calls ids of its own, and give an id again in a later message. A result is
// of the earliest call of its id that has none yet.
//
// Threads: thread-compatible.
#ifndef ATTNDB_SERVER_OPENAI_OPEN_CALLS_H_
#define ATTNDB_SERVER_OPENAI_OPEN_CALLS_H_

#include <map>
#include <queue>
#include <string>
#include <utility>

namespace attndb::server {

class OpenCalls {
 public:
  enum class Answered {
    kOk,
    kNoCall,  // No call has the id.
    kTwice,   // Each call of the id has a result already.
  };

  void Add(const std::string& id, std::string name) { open_[id].push(std::move(name)); }
  // Notes the result of a call, and gives the name of the tool that was called.
  Answered Answer(const std::string& id, std::string* name) {
    const auto found = open_.find(id);
    if (found == open_.end()) return Answered::kNoCall;
    if (found->second.empty()) return Answered::kTwice;
    *name = std::move(found->second.front());
    found->second.pop();
    return Answered::kOk;
  }

 private:
  std::map<std::string, std::queue<std::string>> open_;  // Names of tools, by the ids of calls.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_OPEN_CALLS_H_
