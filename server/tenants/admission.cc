#include "server/tenants/admission.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "attndb/units.h"

namespace attndb::server {
namespace {

constexpr double kMinuteSeconds = 60;

}  // namespace

class Admission::Place::Held {
 public:
  Held(Admission* admission, std::string tenant)
      : admission_(admission), tenant_(std::move(tenant)) {}
  ~Held() { Free(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  void Free() {
    if (!is_free_.exchange(true)) admission_->Leave(tenant_);
  }

 private:
  Admission* const admission_;
  const std::string tenant_;
  std::atomic<bool> is_free_ = false;
};

void Admission::Place::Free() const {
  if (held_ != nullptr) held_->Free();
}

void Admission::Taken::GiveBack(double now) {
  num_tokens = std::max(0.0, num_tokens - (now - seconds) * tokens_per_second);
  seconds = now;
}

Status Admission::Enter(const TenantRules& rules, double seconds, Place* place,
                        double* retry_seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  Taken& taken = taken_[rules.tenant];
  if (rules.max_requests > 0 && taken.num_requests >= rules.max_requests) {
    *retry_seconds = 1;
    return Status::ResourceExhausted("tenant '" + rules.tenant + "' has " +
                                     Counted(taken.num_requests, "request") +
                                     " under way, and may have no more");
  }
  if (rules.tokens_per_minute > 0) {
    const auto limit = static_cast<double>(rules.tokens_per_minute);
    taken.tokens_per_second = limit / kMinuteSeconds;
    taken.GiveBack(seconds);
    if (taken.num_tokens >= limit) {
      *retry_seconds = (taken.num_tokens - limit) / taken.tokens_per_second + 1;
      return Status::ResourceExhausted("tenant '" + rules.tenant + "' has taken its " +
                                       Counted(rules.tokens_per_minute, "token") + " a minute");
    }
  }
  ++taken.num_requests;
  lock.unlock();  // *place may hold another one, which takes it.
  place->held_ = std::make_shared<Place::Held>(this, rules.tenant);
  return Status::Ok();
}

void Admission::Leave(const std::string& tenant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  --taken_[tenant].num_requests;
}

void Admission::Count(const std::string& tenant, uint64_t num_tokens, double seconds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Taken& taken = taken_[tenant];
  if (taken.tokens_per_second == 0) return;  // Nobody has asked for them.
  taken.GiveBack(seconds);
  taken.num_tokens += static_cast<double>(num_tokens);
}

}  // namespace attndb::server
