#include "bench/index/index_report.h"

#include <algorithm>

#include "attndb/version.h"
#include "cli/common/machine.h"
#include "cli/common/table.h"
#include "cli/common/units.h"

namespace attndb::bench {
namespace {

using cli::Align;
using cli::FormatFixed;

using Json = nlohmann::ordered_json;

// What indexes are compared at.
constexpr double kRecalls[] = {0.95, 0.99};
// How many times the best peer's queries a second attndb is to answer.
constexpr double kTarget = 2.0;

std::string Percent(double share, int decimals) {
  return share < 0 ? "-" : FormatFixed(100 * share, decimals) + " %";
}

Json BestJson(const BestAt& best) {
  if (best.name.empty()) return nullptr;
  return {{"name", best.name}, {"setting", best.setting}, {"us_per_query", best.us_per_query}};
}

Json HeadJson(const IndexHeadResult& head) {
  Json results = Json::array();
  for (const IndexResult& result : head.results) {
    results.push_back({{"name", result.name},
                       {"setting", result.setting},
                       {"ran", result.ran},
                       {"recall", result.recall},
                       {"us_per_query", result.us_per_query},
                       {"visited", result.visited},
                       {"build_seconds", result.build_seconds},
                       {"bytes_per_key", result.index_bytes}});
  }
  Json best = Json::array();
  for (const double recall : kRecalls) {
    best.push_back({{"recall", recall},
                    {"attndb", BestJson(FindBest(head, recall, true))},
                    {"peer", BestJson(FindBest(head, recall, false))}});
  }
  return {{"name", head.name},
          {"num_keys", head.num_keys},
          {"num_segments", head.num_segments},
          {"group_size", head.group_size},
          {"head_dim", head.head_dim},
          {"results", std::move(results)},
          {"best", std::move(best)},
          {"left_out", head.left_out}};
}

std::string HeadText(const IndexHeadResult& head) {
  cli::Table table({{"index"},
                    {"setting"},
                    {"recall", Align::kRight},
                    {"us a query", Align::kRight},
                    {"queries/s", Align::kRight},
                    {"visited", Align::kRight},
                    {"build s", Align::kRight},
                    {"bytes a key", Align::kRight}});
  for (const IndexResult& result : head.results) {
    table.AddRow({result.name, result.setting, FormatFixed(result.recall, 4),
                  FormatFixed(result.us_per_query, 1),
                  FormatCount(static_cast<uint64_t>(1e6 / result.us_per_query)),
                  Percent(result.visited, 2),
                  result.build_seconds > 0 ? FormatFixed(result.build_seconds, 2) : "-",
                  result.index_bytes > 0 ? FormatFixed(result.index_bytes, 0) : "-"});
  }
  return head.name + ": " + FormatCount(head.num_keys) + " keys in " +
         std::to_string(head.num_segments) +
         (head.num_segments == 1 ? " segment of " : " segments of ") +
         std::to_string(head.head_dim) + " channels, " + std::to_string(head.group_size) +
         " q heads\n" + table.ToText() + "\n";
}

std::string BestText(const BestAt& best) {
  if (best.name.empty()) return "not reached";
  return FormatFixed(best.us_per_query, 1) + " us, " + best.name + " " + best.setting;
}

// The verdict of one head at one recall.
std::string Verdict(const BestAt& ours, const BestAt& peer) {
  if (ours.name.empty()) return "MISSED";
  if (peer.name.empty()) return "no peer reaches it";
  const double ratio = peer.us_per_query / ours.us_per_query;
  return FormatFixed(ratio, 2) + " x" + (ratio >= kTarget ? "" : " MISSED");
}

}  // namespace

Json IndexBenchJson(const HeadInfo& info, const IndexBenchOptions& options,
                    const std::vector<IndexHeadResult>& heads) {
  Json list = Json::array();
  for (const IndexHeadResult& head : heads) list.push_back(HeadJson(head));
  return {{"bench", "index"},
          {"machine", {{"cpu", cli::ReadCpuInfo().model}, {"isa", KernelIsa()}}},
          {"origin", HeadOriginName(info.origin)},
          {"description", info.description},
          {"k", options.k},
          {"find", options.find.empty() ? Json(nullptr) : Json(options.find)},
          {"prefix_tokens", options.prefix_tokens},
          {"num_queries", options.num_queries},
          {"num_rounds", options.num_rounds},
          {"heads", std::move(list)}};
}

std::string IndexBenchText(const HeadInfo& info, const IndexBenchOptions& options,
                           const std::vector<IndexHeadResult>& heads) {
  std::string text =
      cli::PairsText(
          {{"vectors", std::string(HeadOriginName(info.origin)) + ": " + info.description},
           {"on", cli::ReadCpuInfo().model + ", " + KernelIsa() + ", 1 thread"},
           {"recall", options.find.empty() ? "of the " + std::to_string(options.k) + " best"
                                           : "of the softmax mass of " + options.find}}) +
      "\n";
  for (const IndexHeadResult& head : heads) text += HeadText(head);
  cli::Table table({{"head"}, {"recall"}, {"attndb"}, {"best peer"}, {"faster"}});
  for (const IndexHeadResult& head : heads) {
    for (const double recall : kRecalls) {
      const BestAt ours = FindBest(head, recall, true);
      const BestAt peer = FindBest(head, recall, false);
      table.AddRow({head.name, FormatFixed(recall, 2), BestText(ours), BestText(peer),
                    options.peers.empty() ? "" : Verdict(ours, peer)});
    }
  }
  text += table.ToText();
  if (!heads.empty()) {
    for (const std::string& reason : heads.front().left_out) text += "left out: " + reason + "\n";
  }
  return text;
}

}  // namespace attndb::bench
