#include "server/batch/turn.h"

#include <chrono>
#include <utility>

#include "engines/llama/reply.h"

namespace attndb::server {

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Turn::Turn(TurnRequest request, Session session, std::vector<TokenId> rest,
           std::shared_ptr<TurnListener> listener)
    : request_(std::move(request)),
      session_(std::move(session)),
      rest_(std::move(rest)),
      listener_(std::move(listener)) {}

Turn::~Turn() = default;

}  // namespace attndb::server
