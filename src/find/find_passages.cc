#include "find/find_passages.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/aligned_buffer.h"
#include "find/block_scores.h"
#include "find/placed_question.h"
#include "storage/kv/kv_layout.h"

namespace attndb::find {
namespace {

// Heads of the question that read the same keys, by their place in the search.
struct KeyGroup {
  HeadKeys keys;
  std::vector<size_t> heads;
};

std::vector<KeyGroup> GroupsOf(const PassageSearch& search) {
  std::map<std::pair<LayerId, uint32_t>, std::vector<size_t>> by_keys;
  for (size_t i = 0; i < search.heads.size(); ++i) {
    const HeadQuestion& head = search.heads[i];
    const uint32_t kv_head = head.q_head / search.spec->layers[head.layer].group_size();
    by_keys[{head.layer, kv_head}].push_back(i);
  }
  std::vector<KeyGroup> groups;
  for (auto& [keys, heads] : by_keys) {
    groups.push_back({{keys.first, keys.second}, std::move(heads)});
  }
  return groups;
}

class Search {
 public:
  explicit Search(const PassageSearch& search)
      : search_(search),
        blocks_(search.runs, search.passage_tokens / 2),
        ranking_(search.runs, blocks_, search.head_scores),
        failures_(search.runs.size()) {}

  Result<PassageReport> Run() {
    const std::vector<KeyGroup> groups = GroupsOf(search_);
    size_t max_rows = 0;
    for (const KeyGroup& group : groups) {
      max_rows = std::max(max_rows, group.heads.size() * search_.num_tokens);
    }
    const uint64_t row_bytes = blocks_.num_blocks() * sizeof(float);
    const uint64_t bytes = row_bytes * max_rows + ranking_.MemoryBytes(search_.heads.size());
    ATTNDB_ASSIGN_OR_RETURN(const storage::Reservation reservation,
                            search_.budget->Reserve(bytes, "scores of a find"));
    ATTNDB_ASSIGN_OR_RETURN(maxima_, AlignedBuffer::Allocate(row_bytes * max_rows));
    for (const KeyGroup& group : groups) ATTNDB_RETURN_IF_ERROR(AddGroup(group));
    return Report();
  }

 private:
  float* maxima() { return reinterpret_cast<float*>(maxima_.data()); }

  Status AddGroup(const KeyGroup& group) {
    const LayerSpec& layer = search_.spec->layers[group.keys.layer];
    std::vector<float> rows;
    for (const size_t head : group.heads) {
      const std::vector<float>& more = search_.heads[head].rows;
      rows.insert(rows.end(), more.begin(), more.end());
    }
    const PlacedQuestion question(layer, std::move(rows), search_.num_tokens,
                                  search_.first_position);
    const std::vector<Turn> turns =
        TurnsBehind(layer, blocks_.block_tokens(), blocks_.longest_run());
    search_.pool->ParallelFor(static_cast<uint32_t>(search_.runs.size()), [&](uint32_t run) {
      if (failures_[run].ok()) {
        failures_[run] =
            ScoreRun(search_.runs[run], group.keys, question, turns, blocks_, run, maxima());
      }
      if (!failures_[run].ok()) SilenceRun(blocks_, run, question.num_rows(), maxima());
    });
    const uint64_t key_bytes = storage::RowBytes(search_.spec->kv_dtype, layer.head_dim);
    for (size_t run = 0; run < search_.runs.size(); ++run) {
      // No room is ours to tell, and no fault of the run.
      if (failures_[run].code() == StatusCode::kResourceExhausted) return failures_[run];
      if (failures_[run].ok()) key_bytes_ += search_.runs[run].num_tokens * key_bytes;
    }
    for (size_t i = 0; i < group.heads.size(); ++i) {
      ranking_.AddHead(search_.num_tokens,
                       maxima() + i * search_.num_tokens * blocks_.num_blocks());
      ranked_heads_.push_back(group.heads[i]);
    }
    return Status::Ok();
  }

  Result<PassageReport> Report() {
    PassageReport report;
    for (size_t run = 0; run < failures_.size(); ++run) {
      if (failures_[run].ok()) continue;
      ranking_.Lose(run);
      report.lost.push_back({run, failures_[run]});
    }
    for (const RankedPassage& ranked : ranking_.Best(search_.limit)) {
      FoundPassage passage = {ranked.run, ranked.tokens, ranked.score, {}};
      if (search_.head_scores) passage.head_scores.resize(search_.heads.size());
      for (size_t i = 0; i < ranked_heads_.size() && search_.head_scores; ++i) {
        passage.head_scores[ranked_heads_[i]] = ranking_.HeadScore(i, ranked.block);
      }
      report.passages.push_back(std::move(passage));
    }
    report.num_passages = blocks_.num_blocks();
    report.key_bytes = key_bytes_;
    return report;
  }

  const PassageSearch& search_;
  const Blocks blocks_;
  PassageRanking ranking_;
  std::vector<Status> failures_;      // By run; of the first that failed.
  std::vector<size_t> ranked_heads_;  // In the order in which the ranking has them.
  uint64_t key_bytes_ = 0;
  AlignedBuffer maxima_;
};

}  // namespace

Result<PassageReport> FindPassages(const PassageSearch& search) { return Search(search).Run(); }

}  // namespace attndb::find
