#include "server/batch/turn.h"

#include <chrono>
#include <utility>

#include "engines/llama/reply.h"

namespace attndb::server {
namespace {

TurnOwn OwnOf(const TurnRequest& request) {
  return {.id = request.id,
          .cut_id = request.cut_id,
          .seed = request.generate.sampler.seed,
          .note = request.note};
}

}  // namespace

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Turn::Turn(TurnRequest request, Session session, std::vector<TokenId> rest,
           std::shared_ptr<TurnListener> listener)
    : Turn(std::make_shared<const TurnRequest>(std::move(request)), std::nullopt,
           std::move(session), std::move(rest), std::move(listener)) {}

Turn::Turn(std::shared_ptr<const TurnRequest> request, std::optional<TurnOwn> own, Session session,
           std::vector<TokenId> rest, std::shared_ptr<TurnListener> listener)
    : shared_(std::move(request)),
      own_(own ? *std::move(own) : OwnOf(*shared_)),
      session_(std::move(session)),
      rest_(std::move(rest)),
      listener_(std::move(listener)) {}

Turn::~Turn() = default;

void Turn::Hold(const std::shared_ptr<void>& place) {
  place_ = place;
  for (const std::shared_ptr<Turn>& choice : choices_) choice->place_ = place;
}

void Turn::CountWith(const std::function<void(uint64_t)>& count) {
  count_ = count;
  for (const std::shared_ptr<Turn>& choice : choices_) choice->count_ = count;
}

void Turn::Refuse(const Status& status) {
  listener_->OnError(status);
  for (const std::shared_ptr<Turn>& choice : choices_) choice->listener_->OnError(status);
}

}  // namespace attndb::server
