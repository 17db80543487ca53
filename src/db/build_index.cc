// Database: builds of indexes that a caller asks for, and waits for.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "db/database.h"
#include "planner/plan.h"

namespace attndb::internal {
namespace {

constexpr std::string_view kPlanes = "planes";

// "planes, clustered, ...": what can be built, by the names that plans have for it.
std::string KnownNames(const planner::PlanRegistry& plans) {
  std::string names(kPlanes);
  for (const auto& index : plans.indexes()) {
    if (!index->finds_by.empty()) names += ", " + index->name;
  }
  return names;
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// Whether each of "key=value,..." is an argument of the index, and not of another part of a plan.
bool HasOnlyArgumentsOf(const planner::IndexType& index, std::string_view settings) {
  if (settings.find_first_of("();") != settings.npos) return false;
  while (!settings.empty()) {
    const std::string_view one = settings.substr(0, settings.find(','));
    const std::string_view key = Trimmed(one.substr(0, one.find('=')));
    if (std::ranges::count(index.arguments, key, &planner::Argument::key) == 0) return false;
    settings.remove_prefix(std::min(settings.size(), one.size() + 1));
  }
  return true;
}

// What plans with this index find keys by.
Result<std::string> UseOf(std::string_view text, const planner::PlanRegistry& plans) {
  if (text == kPlanes) return std::string(derived::kKeyPlanes);
  const std::string what = "index '" + std::string(text) + "'";
  const size_t comma = std::min(text.find(','), text.size());
  const planner::IndexType* const index = plans.FindIndex(text.substr(0, comma));
  if (index == nullptr || index->finds_by.empty()) {
    const char* const why = index == nullptr ? " is not known" : " scores all keys, and has none";
    return Status::InvalidArgument(what + why + "; expected " + KnownNames(plans));
  }
  if (comma < text.size() && !HasOnlyArgumentsOf(*index, text.substr(comma + 1))) {
    std::string keys;
    for (const planner::Argument& argument : index->arguments) {
      keys += (keys.empty() ? "" : ", ") + argument.key;
    }
    return Status::InvalidArgument(what + " has what is no setting of " + index->name +
                                   "; expected " + keys);
  }
  const std::string plan_text = "topk(k=1,index=" + std::string(text) + ")";
  const Result<planner::Plan> plan = planner::Plan::Parse(plan_text, plans);
  if (!plan.ok()) {
    return Status(plan.status().code(),
                  what + ", as in " + plan_text + ": " + std::string(plan.status().message()));
  }
  return plan->ForLayer(0).FindsBy();
}

}  // namespace

Result<BuildReport> Database::Build(const std::string& tenant, std::string_view context,
                                    std::string_view index, const BuildOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string use, UseOf(index, plans()));
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  if (!options_.background_builds) {
    return Status::FailedPrecondition(
        "store '" + path_ + "' was opened without background_builds, which build indexes");
  }
  const derived::Kind& kind = kinds_.ForUse(use);
  const std::string& object = kind.traits().object;
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord record, Find(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextDetail before,
                          catalog_->Describe(record.tenant, record.id));
  BuildReport report;
  report.kind = object;
  std::vector<derived::Lanes::AddedPtr> jobs;
  for (const db::ChainSegment& link : before.chain) {
    const derived::SegmentFacts segment = FactsOf(link.segment);
    if (segment.Find(object) != nullptr) {
      ++report.num_present;
    } else if (!kind.MayHave(segment.num_tokens)) {
      ++report.num_too_short;
    } else {
      const derived::Lanes::AddedPtr job = builder_.Order(segment, kind);
      if (job != nullptr) jobs.push_back(job);  // Null if the segment is damaged.
    }
  }
  ATTNDB_RETURN_IF_ERROR(background_.WaitFor(jobs, options.progress));
  ATTNDB_ASSIGN_OR_RETURN(const db::ContextDetail after,
                          catalog_->Describe(record.tenant, record.id));
  uint64_t num_there = 0;
  for (const db::ChainSegment& link : after.chain) {
    const derived::SegmentFacts segment = FactsOf(link.segment);
    const derived::ObjectRecord* const made = segment.Find(object);
    if (made == nullptr) continue;
    ++num_there;
    report.file_bytes += made->file_bytes;
  }
  report.num_built = num_there - std::min(num_there, report.num_present);
  const uint64_t num_known = num_there + report.num_too_short;
  report.num_missing = after.chain.size() - std::min<uint64_t>(after.chain.size(), num_known);
  return report;
}

}  // namespace attndb::internal
