#include "engines/llama/find_heads.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string_view>
#include <utility>

#include "engines/llama/find_question.h"
#include "engines/llama/fingerprint.h"
#include "engines/llama/kept_file.h"
#include "engines/llama/prompt_layout.h"

namespace attndb::llama {
namespace {

constexpr size_t kNumNeedles = 24;
constexpr uint64_t kSeed = 1;
constexpr std::string_view kHeadsHeader = "attndb-find-heads-1";

// Whether most of the fact lies in the passage.
bool Holds(const Passage& passage, TokenRange fact) {
  const uint64_t begin = std::max(passage.tokens.begin, fact.begin);
  const uint64_t end = std::min(passage.tokens.end, fact.end);
  return end > begin && 2 * (end - begin) > fact.end - fact.begin;
}

// At which place, from 1, the head has the first passage that holds the fact; 0 if it says nothing
// for one.
size_t PlaceOf(TokenRange fact, const std::vector<Passage>& passages, size_t head) {
  float best = 0;
  bool is_there = false;
  for (const Passage& passage : passages) {
    if (!Holds(passage, fact)) continue;
    best = is_there ? std::max(best, passage.head_scores[head]) : passage.head_scores[head];
    is_there = true;
  }
  if (!is_there || !(best > 0)) return 0;
  return 1 + static_cast<size_t>(std::ranges::count_if(passages, [&](const Passage& passage) {
           return passage.head_scores[head] > best;
         }));
}

std::vector<FindHead> AllHeads(const ModelSpec& spec) {
  std::vector<FindHead> heads;
  for (LayerId layer = 0; layer < spec.num_layers(); ++layer) {
    for (uint32_t head = 0; head < spec.layers[layer].num_q_heads; ++head) {
      heads.push_back({layer, head});
    }
  }
  return heads;
}

// Where the heads of this model are kept; empty: nowhere.
std::filesystem::path PlaceOfHeads(const LlamaEngine& engine) {
  const std::string& dir = engine.options().cache_dir;
  const Result<std::string> name = TextDigest(engine.spec().fingerprint);
  if (dir.empty() || !name.ok()) return {};
  return std::filesystem::path(dir) / "find-heads" / *name;
}

}  // namespace

// No token goes across two sentences, so that it is known where each lies.
Result<HeadTrial> HeadTrial::Make(const LlamaEngine& engine) {
  HeadTrial trial;
  trial.needles_ = MakeNeedles(kNumNeedles, kSeed);
  std::vector<TokenId>& tokens = trial.text_;
  const auto append = [&engine, &tokens](const std::string& text) -> Status {
    const PromptPart part = {"", text};
    ATTNDB_ASSIGN_OR_RETURN(JoinedText joined, engine.Join(tokens, std::span(&part, 1),
                                                           {.keeps_before = true, .limits = {}}));
    tokens = std::move(joined.tokens);
    return Status();
  };
  for (const Needle& needle : trial.needles_) {
    if (tokens.empty()) {
      const bool raw = !engine.KnowsChatTemplate();
      ATTNDB_ASSIGN_OR_RETURN(PromptText first, DocumentText(engine, raw, "", needle.filler));
      tokens = std::move(first.tokens);
    } else {
      ATTNDB_RETURN_IF_ERROR(append(" " + needle.filler));
    }
    const uint64_t begin = tokens.size();
    ATTNDB_RETURN_IF_ERROR(append(" " + needle.fact));
    trial.facts_.push_back({begin, tokens.size()});
  }
  trial.heads_ = AllHeads(engine.spec());
  trial.worths_.resize(trial.heads_.size());
  return trial;
}

Result<FindResult> HeadTrial::FindAll(const ModelSpec& spec, const DB& scratch,
                                      const FindQuery& query) {
  return scratch.Find(spec, query, {.limit = UINT32_MAX, .head_scores = true});
}

void HeadTrial::Judge(size_t i, const FindResult& found) {
  for (size_t head = 0; head < heads_.size(); ++head) {
    const size_t place = PlaceOf(facts_[i], found.passages, head);
    if (place > 0) worths_[head] += 1.0 / static_cast<double>(place * kNumNeedles);
  }
}

std::vector<RankedHead> HeadTrial::Ranked() const {
  std::vector<RankedHead> ranked;
  for (size_t head = 0; head < heads_.size(); ++head) {
    ranked.push_back({heads_[head], worths_[head]});
  }
  std::ranges::stable_sort(ranked, std::greater(), &RankedHead::worth);
  return ranked;
}

Result<std::vector<RankedHead>> RankHeads(LlamaEngine* engine, const DB& scratch,
                                          const std::function<bool()>& keep_going) {
  ATTNDB_ASSIGN_OR_RETURN(HeadTrial trial, HeadTrial::Make(*engine));
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                          scratch.CreateSession(engine->spec(), trial.text(), {.reuse = false}));
  PrefillOptions prefill;
  if (keep_going) prefill.progress = [&](const PrefillProgress&) { return keep_going(); };
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(start.session, trial.text(), prefill));
  ATTNDB_RETURN_IF_ERROR(scratch.Store(start.session, trial.text()).status());
  for (size_t i = 0; i < trial.num_questions(); ++i) {
    ATTNDB_ASSIGN_OR_RETURN(
        const FindQuestion question,
        FindQuestion::Run(engine, scratch, trial.question(i), trial.heads(), keep_going));
    ATTNDB_ASSIGN_OR_RETURN(const FindResult found,
                            HeadTrial::FindAll(engine->spec(), scratch, question.query()));
    trial.Judge(i, found);
  }
  return trial.Ranked();
}

std::string ToText(const std::vector<RankedHead>& heads) {
  std::ostringstream text;
  text << kHeadsHeader << '\n';
  for (const RankedHead& ranked : heads) {
    text << ranked.head.layer << ' ' << ranked.head.q_head << ' ' << ranked.worth << '\n';
  }
  text << "end\n";
  return text.str();
}

std::optional<std::vector<RankedHead>> HeadsFromText(const std::string& text,
                                                     const ModelSpec& spec) {
  std::istringstream in(text);
  std::string word;
  if (!(in >> word) || word != kHeadsHeader) return std::nullopt;
  std::vector<RankedHead> heads;
  RankedHead ranked;
  while (in >> ranked.head.layer >> ranked.head.q_head >> ranked.worth) {
    if (ranked.head.layer >= spec.num_layers() ||
        ranked.head.q_head >= spec.layers[ranked.head.layer].num_q_heads ||
        std::ranges::find(heads, ranked.head, &RankedHead::head) != heads.end()) {
      return std::nullopt;
    }
    heads.push_back(ranked);
  }
  in.clear();
  if (heads.empty() || !(in >> word) || word != "end") return std::nullopt;
  return heads;
}

std::optional<std::vector<RankedHead>> KeptFindHeads(const LlamaEngine& engine) {
  const std::filesystem::path place = PlaceOfHeads(engine);
  if (place.empty()) return std::nullopt;
  return HeadsFromText(ReadKeptFile(place), engine.spec());
}

std::vector<RankedHead> KeepFindHeads(const LlamaEngine& engine, std::vector<RankedHead> ranked) {
  ranked.resize(std::min(ranked.size(), kNumFindHeads));
  const std::filesystem::path place = PlaceOfHeads(engine);
  if (!place.empty()) KeepFile(place, ToText(ranked));
  return ranked;
}

Result<std::vector<RankedHead>> FindHeads(LlamaEngine* engine,
                                          const std::function<Result<DB>()>& open_scratch,
                                          const std::function<bool()>& keep_going) {
  if (auto heads = KeptFindHeads(*engine)) return *std::move(heads);
  ATTNDB_ASSIGN_OR_RETURN(const DB scratch, open_scratch());
  ATTNDB_ASSIGN_OR_RETURN(std::vector<RankedHead> heads, RankHeads(engine, scratch, keep_going));
  return KeepFindHeads(*engine, std::move(heads));
}

}  // namespace attndb::llama
