#include "derived/builder.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/checked_math.h"

namespace attndb::derived {
namespace {

// Beyond this number, requests that ended long ago are forgotten.
constexpr size_t kMaxRequests = 1024;

BuildLane LaneOf(const Kind& kind) {
  return kind.traits().slow || kind.traits().is_custom ? kSlowLane : kFastLane;
}

// The bytes that the indexes of custom heads report.
uint64_t ReportedBytes(std::span<const Head> heads) {
  CheckedSize bytes = 0;
  for (const Head& head : heads) {
    if (head.index != nullptr) bytes = CheckedAdd(bytes, head.index->memory_bytes());
  }
  return bytes.value_or(std::numeric_limits<uint64_t>::max());
}

// Whether the segment lacks an object that it can have on disk.
bool Lacks(const SegmentFacts& segment, const Kind& kind) {
  return !kind.traits().is_custom && !segment.damaged && kind.MayHave(segment.num_tokens) &&
         segment.Find(kind.traits().object) == nullptr;
}

}  // namespace

LayerObjectsPtr Builder::Get(const storage::Segment& segment, const Kind& kind, LayerId layer,
                             const LayerSpec& spec) {
  if (!kind.MayHave(segment.num_tokens())) return nullptr;
  LayerObjectsPtr objects = parts_.cache->Find(segment, kind, layer, spec);
  if (objects == nullptr) Ask(segment, kind);
  return objects;
}

void Builder::Ask(const storage::Segment& segment, const Kind& kind) {
  if (kind.traits().slow && !options_.writes && !options_.looks_again) return;
  if (parts_.cache->IsOnDisk(segment.id(), kind)) return;  // It lacks nothing but memory.
  MutexLock lock(&mutex_);
  const Key key = KeyOf(segment.id(), kind);
  if (!IsDue(key)) return;
  const bool is_kept = options_.writes && !kind.traits().is_custom;
  if (is_kept && !IsForAll(kind)) QueueWish(segment.id(), kind);
  QueueSegment(key, parts_.cache->OwnerOf(segment.id()), segment.file_bytes());
}

void Builder::QueueWish(RunId segment, const Kind& kind) {
  parts_.lanes->Add(kFastLane, {.subject = segment, .run = [this, segment, &kind](Lanes::Control*) {
                                  // A wish that is lost costs time: the next plan asks again.
                                  (void)parts_.store->Wish(segment, kind.traits().object);
                                  return Status::Ok();
                                }});
}

LayerObjectsPtr Builder::Get(const std::shared_ptr<const storage::TailBlock>& block,
                             const Kind& kind, LayerId layer, const LayerSpec& spec) {
  if (!kind.MayHave(block->num_tokens()) || !HasObjects(spec)) return nullptr;
  LayerObjectsPtr objects = parts_.cache->FindInMemory(*block, kind, layer);
  if (objects != nullptr) return objects;
  MutexLock lock(&mutex_);
  const Key key = KeyOf(block->id(), kind, layer);
  if (!IsDue(key)) return nullptr;
  const auto make = [=, this, &kind,
                     weak_block = std::weak_ptr(block)](Lanes::Control* control) -> Result<bool> {
    const std::shared_ptr<const storage::TailBlock> held = weak_block.lock();
    if (held == nullptr) return Status::Cancelled("the session has gone on without its tokens");
    return BuildLayer(*held, kind, layer, spec, control);
  };
  Queue(key, Lanes::kNobody, kind.MemoryBytes(*block, layer, spec), make);
  return nullptr;
}

bool Builder::IsDue(const Key& key) {
  Request& request = requests_[key];
  request.by_session = true;
  if (request.state == Request::State::kQueued) return false;
  const bool ended = request.state == Request::State::kEnded;
  return !ended || options_.clock() - request.ended_ns >= kAskAgainNs;
}

void Builder::QueueSegment(const Key& key, uint64_t owner, uint64_t work) {
  Queue(key, owner, work, [=, this](Lanes::Control* control) -> Result<bool> {
    ATTNDB_RETURN_IF_ERROR(MakeOfSegment(key, work, control));
    return parts_.cache->IsOnDisk(key.run, *parts_.kinds->all()[key.kind]);
  });
}

void Builder::Queue(const Key& key, uint64_t owner, uint64_t work, Make make) {
  Request& request = requests_[key];
  request.state = Request::State::kQueued;
  Shrink();
  request.job =
      parts_.lanes->Add(LaneOf(*parts_.kinds->all()[key.kind]),
                        {.owner = owner,
                         .subject = key.run,
                         .work = work,
                         .run = [this, key, make = std::move(make)](Lanes::Control* control) {
                           const Result<bool> is_ready = make(control);
                           End(key, is_ready.ok() && *is_ready);
                           return is_ready.status();
                         }});
}

void Builder::End(const Key& key, bool is_ready) {
  MutexLock lock(&mutex_);
  const auto request = requests_.find(key);
  if (request == requests_.end()) return;  // Cancelled.
  if (is_ready) {
    requests_.erase(request);
    return;
  }
  request->second = {.state = Request::State::kEnded,
                     .job = std::move(request->second.job),
                     .ended_ns = options_.clock()};
}

void Builder::Shrink() {
  if (requests_.size() <= kMaxRequests) return;
  const int64_t now_ns = options_.clock();
  std::erase_if(requests_, [now_ns](const auto& item) {
    const Request& request = item.second;
    return request.state == Request::State::kEnded && now_ns - request.ended_ns >= kAskAgainNs;
  });
}

bool Builder::IsAsked(const Key& key) const {
  const auto request = requests_.find(key);
  return request != requests_.end() && request->second.state != Request::State::kEnded;
}

bool Builder::IsAskedBySession(const Key& key) const {
  MutexLock lock(&mutex_);
  const auto request = requests_.find(key);
  return request != requests_.end() && request->second.by_session;
}

void Builder::ReportLoss(const storage::ObjectName& name, const Kind& kind, const Status& status) {
  // In the kind's lane, so that it comes before the job that replaces the lost object.
  parts_.lanes->Add(LaneOf(kind),
                    {.subject = name.segment_id, .run = [this, name, status](Lanes::Control*) {
                       parts_.store->ReportLoss(name, status);
                       return Status::Ok();
                     }});
}

void Builder::Schedule(const SegmentFacts& segment) {
  if (!options_.writes) return;
  MutexLock lock(&mutex_);
  for (const auto& kind : parts_.kinds->all()) {
    const Key key = KeyOf(segment.id, *kind);
    const auto request = requests_.find(key);
    const bool known = request != requests_.end();
    if (known && request->second.state == Request::State::kQueued) continue;
    if (IsWanted(segment, *kind) && Lacks(segment, *kind)) {
      QueueSegment(key, segment.owner, segment.kv_bytes);
    }
  }
}

Lanes::AddedPtr Builder::QueuedJob(const Key& key) const {
  const auto request = requests_.find(key);
  const bool is_queued =
      request != requests_.end() && request->second.state == Request::State::kQueued;
  return is_queued ? request->second.job : nullptr;
}

Lanes::AddedPtr Builder::LastJob(const Key& key) const {
  const auto request = requests_.find(key);
  return request == requests_.end() ? nullptr : request->second.job;
}

Lanes::AddedPtr Builder::JobOf(const storage::Segment& segment, const Kind& kind) const {
  MutexLock lock(&mutex_);
  return LastJob(KeyOf(segment.id(), kind));
}

Lanes::AddedPtr Builder::JobOf(const storage::TailBlock& block, const Kind& kind,
                               LayerId layer) const {
  MutexLock lock(&mutex_);
  return LastJob(KeyOf(block.id(), kind, layer));
}

Lanes::AddedPtr Builder::Order(const SegmentFacts& segment, const Kind& kind) {
  if (!options_.writes || !Lacks(segment, kind)) return nullptr;
  MutexLock lock(&mutex_);
  const Key key = KeyOf(segment.id, kind);
  if (Lanes::AddedPtr job = QueuedJob(key)) return job;
  QueueSegment(key, segment.owner, segment.kv_bytes);
  return requests_[key].job;
}

std::optional<PriorObject> Builder::OpenPrior(const storage::Segment& first,
                                              const SegmentFacts& facts, const Kind& kind) const {
  const ObjectRecord* const record = facts.Find(kind.traits().object);
  if (!kind.traits().grows || record == nullptr) return std::nullopt;
  Result<std::shared_ptr<const storage::Companion>> object =
      parts_.files->Open(first, kind, *record);
  // The reader of the object reports the error. Here the error only costs time.
  if (!object.ok()) return std::nullopt;
  return PriorObject{*std::move(object), first.num_tokens()};
}

std::optional<PriorObject> Builder::PriorOf(const Key& key) const {
  MutexLock lock(&mutex_);
  const auto request = requests_.find(key);
  return request == requests_.end() ? std::nullopt : request->second.prior;
}

void Builder::GrowFrom(const storage::Segment& first, const SegmentFacts& facts,
                       const SegmentFacts& merged) {
  if (!options_.writes || !options_.grows) return;
  for (const auto& kind : parts_.kinds->all()) {
    std::optional<PriorObject> prior = OpenPrior(first, facts, *kind);
    if (!prior) continue;
    MutexLock lock(&mutex_);
    requests_[KeyOf(merged.id, *kind)].prior = std::move(prior);
  }
}

bool Builder::IsPending(const SegmentFacts& segment) const {
  MutexLock lock(&mutex_);
  return std::ranges::any_of(
      parts_.kinds->all(), [&](const auto& kind) ATTNDB_NO_THREAD_SAFETY_ANALYSIS {
        return Lacks(segment, *kind) &&
               (IsWanted(segment, *kind) || IsAsked(KeyOf(segment.id, *kind)));
      });
}

void Builder::Cancel(SegmentId segment) {
  {
    MutexLock lock(&mutex_);
    requests_.erase(requests_.lower_bound({.run = segment}),
                    requests_.lower_bound({.run = segment + 1}));
  }
  parts_.lanes->Cancel(segment);
}

void Builder::CancelAll() {
  constexpr size_t kLanes[] = {kFastLane, kSlowLane};  // Others count on the jobs of other lanes.
  parts_.lanes->CancelLanes(kLanes);
  MutexLock lock(&mutex_);
  requests_.clear();
}

uint64_t Builder::num_written() const {
  MutexLock lock(&mutex_);
  return num_written_;
}

Status Builder::MakeOfSegment(const Key& key, uint64_t work, Lanes::Control* control) {
  const Kind& kind = *parts_.kinds->all()[key.kind];
  ATTNDB_ASSIGN_OR_RETURN(OpenedSegment opened, parts_.store->OpenSegment(key.run));
  parts_.cache->Learn(opened.segment, opened.facts);
  Status status;
  if (!parts_.cache->IsOnDisk(key.run, kind)) {
    status = Write(opened, kind, work, control);
    const bool refused = status.code() == StatusCode::kFailedPrecondition;
    const bool failed = !status.ok() && status.code() != StatusCode::kCancelled;
    if (failed && !kind.traits().slow && IsAskedBySession(key)) {
      Status in_memory = BuildInMemory(opened, kind, work, control);
      if (refused) status = std::move(in_memory);
    }
  }
  opened.segment.reset();
  parts_.store->SegmentReleased();
  return status;
}

Status Builder::Write(const OpenedSegment& opened, const Kind& kind, uint64_t work,
                      Lanes::Control* control) {
  const storage::Segment& segment = *opened.segment;
  if (!options_.writes || !Lacks(opened.facts, kind)) {
    return Status::FailedPrecondition("the segment wants no " + std::string(kind.traits().object) +
                                      " on disk");
  }
  ATTNDB_RETURN_IF_ERROR(parts_.store->Admit(segment.id(), kind.traits().object,
                                             kind.ObjectBytes(segment, opened.spec)));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t generation, parts_.store->ReserveGeneration());
  ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<storage::CompanionWriter> writer,
                          parts_.files->Create(segment, kind, generation, control->cancel()));
  ThreadPool* const pool = kind.traits().slow ? control->pool() : nullptr;
  const uint64_t num_layers = opened.spec.num_layers();
  const std::optional<PriorObject> prior = PriorOf(KeyOf(segment.id(), kind));
  const Begun begun = OpenBegun(opened, kind);
  const Status rows = kind.Write(
      segment, opened.spec, pool, writer.get(),
      [&](LayerId layer) { control->Report(work / num_layers * (layer + 1)); },
      prior ? &*prior : nullptr, begun.object.get());
  parts_.store->ReportDamage(segment, rows);
  if (rows.code() == StatusCode::kCancelled) KeepBegun(segment, kind, begun, writer.get());
  ATTNDB_RETURN_IF_ERROR(rows);
  ATTNDB_ASSIGN_OR_RETURN(const storage::WrittenObject written, writer->Finish());
  const ObjectRecord object = {.kind = kind.traits().object,
                               .generation = generation,
                               .file_bytes = written.object_bytes + written.manifest_bytes,
                               .root_hash = written.root_hash};
  const Status published = parts_.store->PublishObject(segment.id(), object);
  if (!published.ok()) {
    // If the commit got through although it failed, readers find no files, and drop it.
    parts_.files->Remove(writer->name());
    return published;
  }
  parts_.cache->Learn(opened.segment, {.objects = {object}});
  if (begun.record != nullptr) {
    parts_.store->DropObject({segment.id(), begun.record->kind, begun.record->generation});
  }
  MutexLock lock(&mutex_);
  ++num_written_;
  return Status::Ok();
}

// Objects that can't be opened are built again.
Builder::Begun Builder::OpenBegun(const OpenedSegment& opened, const Kind& kind) const {
  Begun begun;
  if (kind.traits().begun.empty()) return begun;
  begun.record = opened.facts.Find(kind.traits().begun);
  if (begun.record == nullptr) return begun;
  Result<std::shared_ptr<const storage::Companion>> object =
      parts_.files->Open(*opened.segment, kind, *begun.record);
  if (!object.ok()) return begun;
  begun.object = *std::move(object);
  const storage::KvShape& shape = opened.segment->shape();
  for (LayerId layer = 0; layer < shape.layers.size(); ++layer) {
    for (uint32_t head = 0; head < shape.layers[layer].num_kv_heads; ++head) {
      if (begun.object->num_rows({layer, head, 0}) > 0) ++begun.num_heads;
    }
  }
  return begun;
}

// A build that was cut short keeps the heads that it had made, unless the segment is gone. Without
// room for them they are made again.
void Builder::KeepBegun(const storage::Segment& segment, const Kind& kind, const Begun& before,
                        storage::CompanionWriter* writer) {
  const size_t num_parts = kind.traits().parts.size();
  if (kind.traits().begun.empty() || writer->num_filled() <= before.num_heads * num_parts) return;
  const Result<storage::WrittenObject> written = writer->FinishBegun(kind.traits().begun);
  if (!written.ok()) return;
  const ObjectRecord object = {.kind = kind.traits().begun,
                               .generation = writer->name().generation,
                               .file_bytes = written->object_bytes + written->manifest_bytes,
                               .root_hash = written->root_hash};
  const Status published = parts_.store->PublishObject(segment.id(), object);
  if (!published.ok()) parts_.files->Remove(writer->name());
}

// If K and V of all layers leave no room for all objects of the kind, memory is free only for a
// moment. Objects would then take the memory that calls are about to need.
bool Builder::HasRoomBeside(const OpenedSegment& opened, const Kind& kind) const {
  const storage::Segment& segment = *opened.segment;
  uint64_t bytes = segment.file_bytes();
  for (LayerId layer = 0; layer < segment.shape().layers.size(); ++layer) {
    bytes += kind.MemoryBytes(segment, layer, opened.spec.layers[layer]);
  }
  return bytes <= parts_.budget->limit_bytes();
}

Status Builder::BuildInMemory(const OpenedSegment& opened, const Kind& kind, uint64_t work,
                              Lanes::Control* control) {
  const storage::Segment& segment = *opened.segment;
  const uint64_t num_layers = opened.spec.num_layers();
  if (!HasRoomBeside(opened, kind)) return Status::Ok();
  for (LayerId layer = 0; layer < num_layers; ++layer) {
    const LayerSpec& spec = opened.spec.layers[layer];
    if (!HasObjects(spec) || parts_.cache->IsInMemory(segment.id(), kind, layer)) continue;
    const Result<bool> is_built = BuildLayer(segment, kind, layer, spec, control);
    parts_.store->ReportDamage(segment, is_built.status());
    ATTNDB_RETURN_IF_ERROR(is_built.status());
    if (!*is_built) return Status::Ok();
    control->Report(work / num_layers * (layer + 1));
  }
  return Status::Ok();
}

Result<bool> Builder::BuildLayer(const storage::KvRun& run, const Kind& kind, LayerId layer,
                                 const LayerSpec& spec, Lanes::Control* control) {
  const bool is_custom = kind.traits().is_custom;
  std::optional<storage::Reservation> reservation;
  if (!is_custom) reservation = parts_.budget->ReserveIfFree(kind.MemoryBytes(run, layer, spec));
  if (!is_custom && !reservation) return false;
  ThreadPool* const pool = kind.traits().slow ? control->pool() : nullptr;
  Result<std::vector<Head>> heads =
      kind.BuildLayer(run, layer, spec, {.pool = pool, .cancel = control->cancel()});
  if (heads.status().code() == StatusCode::kResourceExhausted) return false;
  ATTNDB_RETURN_IF_ERROR(heads.status());
  if (is_custom) reservation = parts_.budget->ReserveIfFree(ReportedBytes(*heads));
  if (!reservation) return false;
  parts_.cache->Keep(run, kind, layer, *std::move(reservation), *std::move(heads));
  return true;
}

}  // namespace attndb::derived
