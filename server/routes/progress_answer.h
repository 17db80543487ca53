// An answer that takes its time: one JSON object at the end, and where the client asked for a
// stream events of how far it is before, {"done", "total"}, and [DONE] behind it.
//
// Threads: one at a time.
#ifndef ATTNDB_SERVER_ROUTES_PROGRESS_ANSWER_H_
#define ATTNDB_SERVER_ROUTES_PROGRESS_ANSWER_H_

#include <cstdint>
#include <utility>

#include "attndb/result.h"
#include "server/json.h"
#include "server/service.h"

namespace attndb::server {

class ProgressAnswer {
 public:
  ProgressAnswer(Service* service, Call call, bool stream)
      : service_(service), call_(std::move(call)), stream_(stream) {}

  const Call& call() const { return call_; }

  // Begins a stream before there is anything to tell, so that its client does not take it for dead.
  void Begin();
  // Both in the same unit: tokens, bytes.
  void Progress(uint64_t num_done, uint64_t num_in_all);
  // Ends it. An error has the status of HTTP that `end` has, or if that is 200 its code's; in a
  // stream that has begun it is an event.
  void Send(const Result<Json>& json, CallEnd end);

 private:
  Service* const service_;
  Call call_;
  const bool stream_;
  bool begun_ = false;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_PROGRESS_ANSWER_H_
