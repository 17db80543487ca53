#include "prices/hints.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "common/json.h"
#include "common/json_text.h"

namespace attndb::internal {
namespace {

using planner::HeadStatistics;
using planner::MachineConstants;
using planner::MeanRatio;

constexpr std::string_view kFileName = "hints.json";
constexpr int kVersion = 4;
constexpr size_t kMaxScans = 8;

bool IsSameMachine(const MachineConstants& a, const MachineConstants& b) {
  return a.cpu == b.cpu && a.isa == b.isa && a.num_threads == b.num_threads;
}

JsonText JsonOf(const MachineConstants& machine) {
  using Nanos = std::span<const double>;
  JsonList scans;
  for (const planner::ScanNanos& scan : machine.scans) {
    scans.Add(JsonObject({{"bits", scan.bits}, {"per_key", Nanos(scan.per_key)}}));
  }
  return JsonObject({{"cpu", machine.cpu},
                     {"isa", machine.isa},
                     {"num_threads", machine.num_threads},
                     {"one_bytes_per_ns", machine.one_bytes_per_ns},
                     {"all_bytes_per_ns", machine.all_bytes_per_ns},
                     {"attend", Nanos(machine.attend)},
                     {"score", Nanos(machine.score)},
                     {"scans", scans.Text()},
                     {"select", machine.select},
                     {"row", machine.row},
                     {"hop", machine.hop},
                     {"head", machine.head}});
}

// A price: positive, finite, and not so large that sums of them overflow.
double PriceOf(const Json& json) {
  const double price = json.get<double>();
  if (!(price >= 0) || price > 1e12) throw std::out_of_range("not a price");
  return price;
}

planner::GroupNanos GroupOf(const Json& json) {
  planner::GroupNanos nanos{};
  if (json.size() != nanos.size()) throw std::out_of_range("not a price a group");
  for (size_t i = 0; i < nanos.size(); ++i) nanos[i] = PriceOf(json.at(i));
  return nanos;
}

// Throws the exceptions of nlohmann::json, and std::out_of_range.
MachineConstants MachineOf(const Json& json) {
  MachineConstants machine;
  machine.cpu = json.at("cpu").get<std::string>();
  machine.isa = json.at("isa").get<std::string>();
  machine.num_threads = json.at("num_threads").get<uint32_t>();
  machine.measured = true;
  machine.one_bytes_per_ns = std::max(1e-3, PriceOf(json.at("one_bytes_per_ns")));
  machine.all_bytes_per_ns = std::max(1e-3, PriceOf(json.at("all_bytes_per_ns")));
  machine.attend = GroupOf(json.at("attend"));
  machine.score = GroupOf(json.at("score"));
  machine.scans.clear();
  for (const Json& scan : json.at("scans")) {
    if (machine.scans.size() == kMaxScans) break;
    machine.scans.push_back({scan.at("bits").get<uint32_t>(), GroupOf(scan.at("per_key"))});
  }
  machine.select = PriceOf(json.at("select"));
  machine.row = PriceOf(json.at("row"));
  machine.hop = PriceOf(json.at("hop"));
  machine.head = PriceOf(json.at("head"));
  return machine;
}

// One array a head, as the file has it.
JsonText JsonOf(const HeadStatistics& head) {
  JsonList json;
  json.Add(head.rows.value());
  json.Add(head.rows.count());
  for (const MeanRatio& time : head.time) {
    json.Add(time.value());
    json.Add(time.count());
  }
  json.Add(head.selected);
  json.Add(head.missed);
  json.Add(static_cast<uint32_t>(head.last));
  json.Add(head.spread.value());
  json.Add(head.spread.count());
  return json.Text();
}

MeanRatio RatioOf(const Json& json, size_t i) {
  return MeanRatio(json.at(i).get<double>(), json.at(i + 1).get<uint32_t>());
}

double MeanOf(const Json& json) {
  const double value = json.get<double>();
  return std::isfinite(value) && value >= 0 ? value : -1;
}

HeadStatistics HeadOf(const Json& json) {
  HeadStatistics head;
  size_t i = 0;
  head.rows = RatioOf(json, i);
  for (MeanRatio& time : head.time) time = RatioOf(json, i += 2);
  head.selected = MeanOf(json.at(i += 2));
  head.missed = std::max(0.0, MeanOf(json.at(++i)));
  const auto last = json.at(++i).get<uint32_t>();
  if (last >= planner::kNumMethods) throw std::out_of_range("not a method");
  head.last = static_cast<planner::Method>(last);
  if (json.size() > ++i) head.spread = RatioOf(json, i);  // Older files have none.
  return head;
}

JsonText JsonOf(const ContextStatistics& statistics) {
  JsonList layers;
  for (const std::vector<HeadStatistics>& heads : statistics) {
    JsonList layer;
    for (const HeadStatistics& head : heads) layer.Add(JsonOf(head));
    layers.Add(layer.Text());
  }
  return layers.Text();
}

ContextStatistics StatisticsOf(const Json& json) {
  ContextStatistics statistics;
  for (const Json& layer : json) {
    std::vector<HeadStatistics>& heads = statistics.emplace_back();
    for (const Json& head : layer) heads.push_back(HeadOf(head));
  }
  return statistics;
}

Result<std::string> ReadFile(storage::FileSystem* file_system, const std::string& path) {
  ATTNDB_ASSIGN_OR_RETURN(const auto file, file_system->OpenForRead(path));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size > Hints::kMaxFileBytes) return Status::ResourceExhausted(path + ": too large");
  std::string text(size, '\0');
  ATTNDB_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

Hints::Hints(storage::FileSystem* file_system, const std::string& dir)
    : file_system_(file_system), path_(storage::JoinPath(dir, std::string(kFileName))) {
  Load();
}

void Hints::Load() {
  const Result<std::string> text = ReadFile(file_system_, path_);
  if (!text.ok()) return;
  MutexLock lock(&mutex_);
  try {
    const Json json = ParseJson(*text);
    if (json.at("version").get<int>() != kVersion) return;
    for (const Json& machine : json.at("machines")) machines_.push_back(MachineOf(machine));
    for (const Json& context : json.at("contexts")) {
      contexts_.push_back({static_cast<ContextId>(context.at("id").get<int64_t>()),
                           StatisticsOf(context.at("layers"))});
    }
  } catch (const std::exception&) {  // Not ours: as if it were not there.
    machines_.clear();
    contexts_.clear();
  }
}

std::optional<MachineConstants> Hints::FindMachine(const MachineConstants& machine) const {
  MutexLock lock(&mutex_);
  for (const MachineConstants& known : machines_) {
    if (IsSameMachine(known, machine)) return known;
  }
  return std::nullopt;
}

void Hints::NoteMachine(const MachineConstants& machine) {
  MutexLock lock(&mutex_);
  std::erase_if(machines_, [&](const auto& known) { return IsSameMachine(known, machine); });
  if (machines_.size() >= kMaxMachines) machines_.erase(machines_.begin());
  machines_.push_back(machine);
  changed_ = true;
}

std::optional<ContextStatistics> Hints::FindContext(ContextId context) const {
  MutexLock lock(&mutex_);
  for (const Context& known : contexts_) {
    if (known.id == context) return known.statistics;
  }
  return std::nullopt;
}

void Hints::NoteContext(ContextId context, const ContextStatistics& statistics) {
  MutexLock lock(&mutex_);
  std::erase_if(contexts_, [&](const Context& known) { return known.id == context; });
  if (contexts_.size() >= kMaxContexts) contexts_.erase(contexts_.begin());
  contexts_.push_back({context, statistics});
  changed_ = true;
}

Status Hints::Write(std::string_view text) const {
  const std::string temporary = path_ + ".new";
  (void)file_system_->Remove(temporary);  // Removes the remains of a crash.
  ATTNDB_ASSIGN_OR_RETURN(const auto file, file_system_->CreateNew(temporary));
  ATTNDB_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(text))));
  ATTNDB_RETURN_IF_ERROR(file->Close());
  (void)file_system_->Remove(path_);  // Rename never replaces.
  return file_system_->Rename(temporary, path_);
}

void Hints::Save() {
  MutexLock lock(&mutex_);
  if (!changed_) return;
  JsonList machines;
  for (const MachineConstants& machine : machines_) machines.Add(JsonOf(machine));
  JsonList contexts;
  for (const Context& context : contexts_) {
    contexts.Add(JsonObject(
        {{"id", static_cast<int64_t>(context.id)}, {"layers", JsonOf(context.statistics)}}));
  }
  (void)Write(
      JsonObject(
          {{"version", kVersion}, {"machines", machines.Text()}, {"contexts", contexts.Text()}})
          .text);  // Lost advice is no error.
  changed_ = false;
}

}  // namespace attndb::internal
