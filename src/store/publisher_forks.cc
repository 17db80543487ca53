// Publisher: Stores of sessions that forked from one another, one after another.
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "store/publisher.h"

namespace attndb::store {
namespace {

// The family of the request's session. "": it has no forks.
std::string FamilyOf(const StoreRequest& request) {
  if (request.forks.empty()) return {};
  return std::to_string(reinterpret_cast<uintptr_t>(request.forks.front().point->family()));
}

// Whether a Store that failed may succeed if it shares less.
bool DependsOnShared(const Status& status) {
  const StatusCode code = status.code();
  return code == StatusCode::kCorruption || code == StatusCode::kFailedPrecondition ||
         code == StatusCode::kResourceExhausted || code == StatusCode::kNotFound;
}

}  // namespace

Result<Stored> Publisher::Store(const StoreRequest& request) {
  if (request.forks.empty()) return StoreInFamily(request);
  auto turn = std::make_shared<std::promise<NameOrder::Place>>();
  std::future<NameOrder::Place> place = turn->get_future();
  families_.Add(request.tenant, FamilyOf(request),
                [turn](NameOrder::Place mine) { turn->set_value(std::move(mine)); });
  const NameOrder::Place mine = place.get();
  return StoreInFamily(request);
}

Result<Stored> Publisher::StoreInFamily(const StoreRequest& asked) {
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  if (asked.forks.empty()) return StoreAlone(asked);
  const std::optional<StoreRequest> detached = Detached(asked, kMinShare - 1);
  const StoreRequest& request = detached ? *detached : asked;
  Result<Stored> stored = Status::NotFound("no fork of the session");
  if (const std::optional<StoreRequest> beside = sharing_.Beside(request)) {
    stored = StoreOrMakeRoom(*beside);
  } else if (const std::optional<uint64_t> num_first = ForkSharing::ForkOf(request)) {
    stored = StoreInTwo(request, *num_first);
  }
  if (!stored.ok() && DependsOnShared(stored.status())) stored = StoreAlone(asked);
  if (stored.ok()) ForkSharing::NoteStored(asked, stored->context);
  return stored;
}

Result<Stored> Publisher::StoreInTwo(const StoreRequest& request, uint64_t num_first) {
  ATTNDB_RETURN_IF_ERROR(parts_.commits->Expire());
  ATTNDB_ASSIGN_OR_RETURN(const Tenant tenant,
                          parts_.catalog->owners()->EnsureTenant(request.tenant));
  ATTNDB_RETURN_IF_ERROR(CheckRequest(request, tenant));
  StoreRequest first = request;
  first.tokens.resize(num_first);
  first.tail = PartOfTail(request, {request.num_stored, num_first});
  ATTNDB_ASSIGN_OR_RETURN(Sealed sealed, Seal(first));
  StoreRequest rest = request;
  rest.chain.push_back({std::move(sealed.segment), sealed.record.num_tokens});
  rest.num_stored = num_first;
  rest.sealed = {std::move(sealed.record)};
  rest.tail = PartOfTail(request, {num_first, request.tokens.size()});
  rest.is_merged_later = true;
  Result<Stored> stored = StoreOrMakeRoom(rest);
  if (!stored.ok()) Abandon(rest.sealed);
  return stored;
}

void Publisher::StoreLater(StoreRequest request, std::function<void(Result<Stored>)> done) {
  const auto job = std::make_shared<Job>(Job{std::move(request), std::move(done), {}, {}});
  order_.Add(job->request.tenant, job->request.options.name, [this, job](NameOrder::Place name) {
    job->name.emplace(std::move(name));
    if (job->request.forks.empty()) return Run(job.get());
    families_.Add(job->request.tenant, FamilyOf(job->request), [this, job](NameOrder::Place mine) {
      job->family.emplace(std::move(mine));
      try {
        writers_.Add([this, job] { Run(job.get()); });
      } catch (const std::exception&) {  // No memory for another thread's work.
        Run(job.get());
      }
    });
  });
}

void Publisher::Run(Job* job) {
  Result<Stored> stored = StoreInFamily(job->request);
  job->family.reset();
  job->name.reset();
  job->request = {};  // Before anybody is told, so that nothing is held for it any more.
  std::exchange(job->done, nullptr)(std::move(stored));
}

}  // namespace attndb::store
