#include "bench/index/index_bench.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "attndb/context_name.h"
#include "bench/index/index_head.h"
#include "bench/index/index_peers.h"
#include "bench/median.h"
#include "bench/what_ran.h"
#include "cli/common/progress.h"
#include "cli/common/temp_dir.h"

namespace attndb::bench {
namespace {

std::vector<std::string> DefaultPlans(uint32_t k) {
  const std::string topk = "topk(k=" + std::to_string(k);
  std::vector<std::string> plans = {topk + ",bits=exact)", topk + ",bits=8)", topk + ",bits=4)"};
  for (const char* effort : {"0.6", "0.7", "0.8", "0.9", "1", "1.1", "1.2", "1.4", "1.7", "2"}) {
    plans.push_back(topk + ",index=clustered,effort=" + effort + ")");
  }
  for (const uint32_t width : {1U, 2U, 3U, 5U, 8U}) {
    plans.push_back(topk + ",index=graph,beam_width=" + std::to_string(width * k) + ")");
  }
  return plans;
}

// What is searched for one plan.
struct PlanRun {
  Session session;
  std::vector<double> us;
  double recall_sum = 0;
  IndexResult result;
};

class HeadBench {
 public:
  HeadBench(const IndexHead& head, const IndexBenchOptions& options)
      : head_(head), options_(options) {}

  const Truth& truth() const { return truth_; }

  Result<IndexHeadResult> Run(const std::string& dir) {
    DBOptions db_options;
    db_options.num_threads = 1;
    db_options.query_sample = options_.query_sample;
    db_options.measure_machine = false;
    db_options.background_threads = 0;
    db_options.import_segment_tokens = options_.segment_tokens;
    ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(dir + "/" + head_.name, db_options));
    ATTNDB_RETURN_IF_ERROR(Import(db));
    ATTNDB_RETURN_IF_ERROR(OpenPlans(db));
    ATTNDB_RETURN_IF_ERROR(FindTruth(db));
    for (uint32_t round = 0; round < options_.num_rounds; ++round) {
      ATTNDB_RETURN_IF_ERROR(RunRound(round));
    }
    return Summarize();
  }

 private:
  static TensorView View(const std::vector<float>& rows, size_t first, uint64_t num_rows,
                         uint32_t heads, uint32_t dim) {
    return TensorView::Contiguous(rows.data() + first, DType::kFloat32,
                                  static_cast<int64_t>(num_rows), heads, dim);
  }

  Status Import(const DB& db) {
    const LayerSpec& layer = head_.layer();
    for (uint64_t i = 0; i <= head_.num_tokens; ++i) tokens_.push_back(static_cast<TokenId>(i));
    const LayerKv kv = {View(head_.k, 0, head_.num_tokens, 1, layer.head_dim),
                        View(head_.v, 0, head_.num_tokens, 1, layer.v_head_dim)};
    const TensorView queries =
        View(head_.train, 0, head_.num_train(), layer.num_q_heads, layer.head_dim);
    ATTNDB_RETURN_IF_ERROR(db.Import(head_.spec, std::span(tokens_).first(head_.num_tokens),
                                     std::span(&kv, 1), {},
                                     std::span(&queries, head_.num_train() > 0 ? 1 : 0))
                               .status());
    return Wait(db, nullptr);
  }

  // What the background takes for what was asked for last.
  static Status Wait(const DB& db, double* seconds) {
    ATTNDB_ASSIGN_OR_RETURN(const DBStats before, db.Stats());
    ATTNDB_RETURN_IF_ERROR(db.WaitForBackground());
    ATTNDB_ASSIGN_OR_RETURN(const DBStats after, db.Stats());
    if (seconds != nullptr) *seconds = after.background_seconds - before.background_seconds;
    return Status();
  }

  TensorView Query(uint64_t i) const {
    const LayerSpec& layer = head_.layer();
    return View(head_.test, i * head_.q_row(), 1, layer.num_q_heads, layer.head_dim);
  }

  Result<Session> Open(const DB& db, const std::string& plan) const {
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                            db.CreateSession(head_.spec, tokens_, {.plan = plan}));
    if (options_.prefix_tokens > 0 && options_.prefix_tokens < head_.num_tokens) {
      ATTNDB_RETURN_IF_ERROR(start.session.Crop(options_.prefix_tokens));
    }
    return std::move(start.session);
  }

  // What companions of a kind took to build and take to keep.
  struct Built {
    double seconds = 0;
    double bytes_per_key = 0;
  };

  // Bytes of the context's companions, by kind.
  Result<std::map<std::string, uint64_t>> CompanionBytes(const DB& db) const {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> contexts, db.List());
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(IdName(contexts.front().id)));
    std::map<std::string, uint64_t> bytes;
    for (const SegmentInfo& segment : info.segments) {
      for (const CompanionInfo& companion : segment.companions) {
        bytes[companion.kind] += companion.file_bytes;
      }
    }
    return bytes;
  }

  // A first search asks for the index: companions of a new kind are what came of it.
  Status OpenPlans(const DB& db) {
    ATTNDB_ASSIGN_OR_RETURN(const auto at_first, CompanionBytes(db));
    std::map<std::string, Built> of_index;  // By the plan's "index=...".
    for (const std::string& plan :
         options_.plans.empty() ? DefaultPlans(options_.k) : options_.plans) {
      ATTNDB_ASSIGN_OR_RETURN(Session session, Open(db, plan));
      ATTNDB_RETURN_IF_ERROR(session.Search(0, Query(0)).status());
      double seconds = 0;
      ATTNDB_ASSIGN_OR_RETURN(const auto before, CompanionBytes(db));
      ATTNDB_RETURN_IF_ERROR(Wait(db, &seconds));
      ATTNDB_ASSIGN_OR_RETURN(const auto after, CompanionBytes(db));
      ATTNDB_RETURN_IF_ERROR(CheckBuilt(plan, &session));
      const size_t at = plan.find("index=");
      const std::string index =
          at == std::string::npos ? "" : plan.substr(at, plan.find_first_of(",)", at) - at);
      for (const auto& [kind, bytes] : after) {
        if (before.contains(kind)) continue;
        of_index[index] = {seconds,
                           static_cast<double>(bytes) / static_cast<double>(head_.num_tokens)};
      }
      PlanRun run = {.session = std::move(session)};
      run.result.name = "attndb";
      run.result.setting = plan;
      if (of_index.contains(index)) {
        run.result.build_seconds = of_index[index].seconds;
        run.result.index_bytes = of_index[index].bytes_per_key;
      } else if (index.empty() && plan.find("bits=exact") == std::string::npos) {
        run.result.index_bytes = static_cast<double>(at_first.at("key_planes_3")) /
                                 static_cast<double>(head_.num_tokens);
      }
      runs_.push_back(std::move(run));
    }
    return Status();
  }

  // Figures of a scan must not stand under an index's name.
  static Status CheckBuilt(const std::string& plan, Session* session) {
    ATTNDB_RETURN_IF_ERROR(session->SetPlan(plan));  // Forgets the search before the build.
    const std::string missing = MissingText(session->Explain());
    if (missing.empty()) return Status();
    return Status::Unsupported("plan '" + plan + "' can't be measured: " + missing);
  }

  Status FindTruth(const DB& db) {
    const std::string plan = options_.find.empty()
                                 ? "topk(k=" + std::to_string(options_.k) + ",bits=exact)"
                                 : options_.find;
    ATTNDB_ASSIGN_OR_RETURN(Session session, Open(db, plan));
    for (uint64_t i = 0; i < head_.num_test(); ++i) {
      ATTNDB_ASSIGN_OR_RETURN(std::vector<CriticalTokens> found, session.Search(0, Query(i)));
      std::vector<std::vector<uint32_t>>& of_query = truth_.emplace_back();
      std::vector<Shares>& shares = shares_.emplace_back();
      for (CriticalTokens& head : found) {
        shares.push_back(SharesOf(head));
        std::ranges::sort(head.tokens);
        of_query.push_back(std::move(head.tokens));
      }
    }
    return Status();
  }

  // A plan's queries one after the other, as peers are measured: what it reads is then as near as
  // it gets in use. Another plan begins each round.
  Status RunRound(uint32_t round) {
    for (size_t p = 0; p < runs_.size(); ++p) {
      const uint64_t done = round * runs_.size() + p;
      if (options_.progress &&
          !options_.progress(head_.name, done, options_.num_rounds * runs_.size())) {
        return Status::Cancelled("interrupted");
      }
      PlanRun& run = runs_[(p + round) % runs_.size()];
      for (uint64_t i = 0; i < head_.num_test(); ++i) {
        const double start = cli::MonotonicSeconds();
        ATTNDB_ASSIGN_OR_RETURN(const std::vector<CriticalTokens> found,
                                run.session.Search(0, Query(i)));
        run.us.push_back((cli::MonotonicSeconds() - start) * 1e6);
        if (round == 0) run.recall_sum += RecallOf(found, shares_[i]);
      }
    }
    return Status();
  }

  // What a token that is to be found counts for; 1 in all.
  using Shares = std::map<uint32_t, double>;

  // What each token counts: the best k count alike, those of a range by their softmax mass.
  Shares SharesOf(const CriticalTokens& head) const {
    Shares shares;
    if (head.tokens.empty()) return shares;
    const double best = *std::ranges::max_element(head.scores);
    double all = 0;
    for (size_t i = 0; i < head.tokens.size(); ++i) {
      const double logit = (head.scores[i] - best) * double{head_.layer().scale};
      const double weight = options_.find.starts_with("dipr") ? std::exp(logit) : 1.0;
      shares[head.tokens[i]] = weight;
      all += weight;
    }
    for (auto& [token, share] : shares) share /= all;
    return shares;
  }

  // Where nothing is to be found, everything is.
  static double RecallOf(const std::vector<CriticalTokens>& found,
                         const std::vector<Shares>& shares) {
    double sum = 0;
    for (size_t head = 0; head < shares.size(); ++head) {
      sum += shares[head].empty() ? 1.0 : 0.0;
      for (const uint32_t token : found[head].tokens) {
        const auto share = shares[head].find(token);
        if (share != shares[head].end()) sum += share->second;
      }
    }
    return sum / static_cast<double>(shares.size());
  }

  Result<IndexHeadResult> Summarize() {
    IndexHeadResult result;
    result.name = head_.name;
    result.num_keys = head_.num_keys();
    if (options_.prefix_tokens > 0 && options_.prefix_tokens < head_.num_tokens) {
      result.num_keys -= head_.num_tokens - options_.prefix_tokens;
    }
    result.num_segments = runs_.front().session.Explain().num_segments;
    result.group_size = head_.layer().num_q_heads;
    result.head_dim = head_.layer().head_dim;
    for (PlanRun& run : runs_) {
      run.result.us_per_query = Median(run.us) / result.group_size;
      run.result.recall = run.recall_sum / static_cast<double>(head_.num_test());
      ATTNDB_ASSIGN_OR_RETURN(const LayerExplain explain, run.session.Explain(0));
      const double visited = explain.heads[0].visited_mean;
      run.result.ran = explain.ran;
      run.result.visited = visited > 0 ? visited / static_cast<double>(result.num_keys) : 1;
      result.results.push_back(std::move(run.result));
    }
    return result;
  }

  const IndexHead& head_;
  const IndexBenchOptions& options_;
  std::vector<TokenId> tokens_;  // And one more, which the engine would run.
  std::vector<PlanRun> runs_;
  Truth truth_;                              // Ascending.
  std::vector<std::vector<Shares>> shares_;  // By query and q head.
};

}  // namespace

BestAt FindBest(const IndexHeadResult& head, double recall, bool ours) {
  BestAt best;
  for (const IndexResult& result : head.results) {
    if ((result.name == "attndb") != ours || result.recall < recall) continue;
    if (!best.name.empty() && result.us_per_query >= best.us_per_query) continue;
    best = {result.name, result.setting, result.us_per_query};
  }
  return best;
}

Result<std::vector<HeadPlace>> ParseHeads(const HeadInfo& info, std::string_view text) {
  std::vector<HeadPlace> places;
  const auto add = [&](size_t i, uint32_t head) {
    places.push_back({i, head, "L" + std::to_string(info.layers[i]) + "H" + std::to_string(head)});
  };
  if (text.empty()) {
    for (size_t i = 0; i < info.layers.size(); ++i) {
      add(i, static_cast<uint32_t>(i % info.layer(i).num_kv_heads));
    }
    return places;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    LayerId layer = 0;
    uint32_t head = 0;
    const char* const last = item.data() + item.size();
    const auto [colon, layer_error] = std::from_chars(item.data(), last, layer);
    const bool has_colon = layer_error == std::errc() && colon != last && *colon == ':';
    const auto [stop, head_error] =
        has_colon ? std::from_chars(colon + 1, last, head) : std::from_chars_result{last, {}};
    const auto found = std::ranges::find(info.layers, layer);
    if (!has_colon || head_error != std::errc() || stop != last || found == info.layers.end() ||
        head >= info.layer(static_cast<size_t>(found - info.layers.begin())).num_kv_heads) {
      return Status::InvalidArgument(
          "heads: expected layer:kv head of these vectors, as in 3:0; found '" + std::string(item) +
          "'");
    }
    add(static_cast<size_t>(found - info.layers.begin()), head);
    begin = end + 1;
  }
  return places;
}

Result<std::vector<IndexHeadResult>> RunIndexBench(HeadSource* source,
                                                   const IndexBenchOptions& options) {
  const bool finds_topk = options.find.empty();
  if (!finds_topk && (options.plans.empty() || !options.peers.empty())) {
    return Status::InvalidArgument("what is found by --find needs --plan, and has no --peers");
  }
  if (options.prefix_tokens > 0 && options.prefix_tokens <= IndexHead::kSink + IndexHead::kWindow) {
    return Status::InvalidArgument("prefix of " + std::to_string(options.prefix_tokens) +
                                   " tokens, expected more than sinks and window, " +
                                   std::to_string(IndexHead::kSink + IndexHead::kWindow));
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<HeadPlace> places,
                          ParseHeads(source->info(), options.heads));
  ATTNDB_ASSIGN_OR_RETURN(const cli::TempDir dir, cli::TempDir::Create(options.temp_dir));
  std::vector<IndexHeadResult> results;
  for (const HeadPlace& place : places) {
    ATTNDB_ASSIGN_OR_RETURN(
        const IndexHead head,
        IndexHead::Read(source, place, options.num_queries, options.prefix_tokens));
    HeadBench bench(head, options);
    ATTNDB_ASSIGN_OR_RETURN(IndexHeadResult result, bench.Run(dir.path()));
    results.push_back(std::move(result));
    if (options.peers.empty()) continue;
    ATTNDB_RETURN_IF_ERROR(WriteHeadFiles(dir.path(), head, bench.truth(), options.query_sample));
  }
  if (options.peers.empty()) return results;
  ATTNDB_RETURN_IF_ERROR(WriteHeadList(dir.path(), results, HeadOriginName(source->info().origin)));
  ATTNDB_RETURN_IF_ERROR(RunPeers(options.peers, dir.path(), &results));
  return results;
}

}  // namespace attndb::bench
