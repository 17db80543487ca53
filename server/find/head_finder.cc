#include "server/find/head_finder.h"

#include <exception>
#include <utility>

#include "engines/llama/find_heads.h"
#include "server/find/head_trial_run.h"
#include "server/service.h"

namespace attndb::server {
namespace {

HeadFinder::Heads HeadsOf(const std::vector<llama::RankedHead>& ranked) {
  HeadFinder::Heads heads;
  for (const llama::RankedHead& head : ranked) heads.push_back(head.head);
  return heads;
}

}  // namespace

void HeadFinder::Get(Then then) {
  std::optional<Heads> known;
  bool is_first = false;
  bool is_full = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    known = heads_;
    is_full = waiting_.size() >= kMaxWaiting;
    if (!known && !is_full) {
      is_first = waiting_.empty();
      waiting_.push_back(std::move(then));
    }
  }
  if (known) return then(*std::move(known));
  if (is_full) return then(Status::ResourceExhausted("too many requests wait for the first find"));
  if (is_first) Find();
}

void HeadFinder::Find() {
  const llama::LlamaEngine& engine = *service_->engine;
  try {
    if (const auto kept = llama::KeptFindHeads(engine)) return End(HeadsOf(*kept));
    RunHeadTrial(service_, [this, &engine](Result<std::vector<llama::RankedHead>> ranked) {
      EndWith([&]() -> Result<Heads> {
        ATTNDB_RETURN_IF_ERROR(ranked.status());
        return HeadsOf(llama::KeepFindHeads(engine, *std::move(ranked)));
      });
    });
  } catch (const std::exception& e) {
    End(Status::Internal(e.what()));
  }
}

void HeadFinder::EndWith(const std::function<Result<Heads>()>& make) {
  Result<Heads> heads = Status::Internal("no heads were chosen");
  try {
    heads = make();
  } catch (const std::exception& e) {
    heads = Status::Internal(e.what());
  }
  End(heads);
}

void HeadFinder::End(const Result<Heads>& heads) {
  std::vector<Then> waiting;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (heads.ok()) heads_ = *heads;
    waiting = std::exchange(waiting_, {});
  }
  for (const Then& then : waiting) {
    try {
      then(heads);
    } catch (const std::exception&) {
      // The request gets what its responder sends in the end, and the others go on.
    }
  }
}

}  // namespace attndb::server
