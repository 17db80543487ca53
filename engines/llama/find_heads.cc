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
#include "engines/llama/needle_text.h"
#include "engines/llama/prompt_layout.h"

namespace attndb::llama {
namespace {

constexpr size_t kNumNeedles = 24;
constexpr uint64_t kSeed = 1;
constexpr std::string_view kHeadsHeader = "attndb-find-heads-1";

struct StoredNeedles {
  std::vector<Needle> needles;
  std::vector<TokenRange> facts;  // Where the facts lie, in tokens of the context.
};

// Runs the text and stores it. No token goes across two sentences, so that it is known where
// each lies.
Result<StoredNeedles> StoreNeedles(LlamaEngine* engine, const DB& db,
                                   const std::function<bool()>& keep_going) {
  StoredNeedles stored;
  stored.needles = MakeNeedles(kNumNeedles, kSeed);
  std::vector<TokenId> tokens;
  const auto append = [engine, &tokens](const std::string& text) -> Status {
    const PromptPart part = {"", text};
    ATTNDB_ASSIGN_OR_RETURN(JoinedText joined, engine->Join(tokens, std::span(&part, 1),
                                                            {.keeps_before = true, .limits = {}}));
    tokens = std::move(joined.tokens);
    return Status();
  };
  for (const Needle& needle : stored.needles) {
    if (tokens.empty()) {
      const bool raw = !engine->info().knows_chat_template;
      ATTNDB_ASSIGN_OR_RETURN(PromptText first, DocumentText(*engine, raw, "", needle.filler));
      tokens = std::move(first.tokens);
    } else {
      ATTNDB_RETURN_IF_ERROR(append(" " + needle.filler));
    }
    const uint64_t begin = tokens.size();
    ATTNDB_RETURN_IF_ERROR(append(" " + needle.fact));
    stored.facts.push_back({begin, tokens.size()});
  }
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                          db.CreateSession(engine->spec(), tokens, {.reuse = false}));
  PrefillOptions prefill;
  if (keep_going) prefill.progress = [&](const PrefillProgress&) { return keep_going(); };
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(start.session, tokens, prefill));
  ATTNDB_RETURN_IF_ERROR(db.Store(start.session, tokens).status());
  return stored;
}

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

}  // namespace

Result<std::vector<RankedHead>> RankHeads(LlamaEngine* engine, const DB& scratch,
                                          const std::function<bool()>& keep_going) {
  ATTNDB_ASSIGN_OR_RETURN(const StoredNeedles stored, StoreNeedles(engine, scratch, keep_going));
  const std::vector<FindHead> heads = AllHeads(engine->spec());
  std::vector<RankedHead> ranked;
  for (const FindHead& head : heads) ranked.push_back({head, 0});
  for (size_t i = 0; i < stored.needles.size(); ++i) {
    ATTNDB_ASSIGN_OR_RETURN(
        const FindQuestion question,
        FindQuestion::Run(engine, scratch, stored.needles[i].question, heads, keep_going));
    ATTNDB_ASSIGN_OR_RETURN(
        const FindResult found,
        scratch.Find(engine->spec(), question.query(), {.limit = UINT32_MAX, .head_scores = true}));
    for (size_t head = 0; head < heads.size(); ++head) {
      const size_t place = PlaceOf(stored.facts[i], found.passages, head);
      if (place > 0) ranked[head].worth += 1.0 / static_cast<double>(place * kNumNeedles);
    }
  }
  std::ranges::stable_sort(ranked, std::greater(), &RankedHead::worth);
  return ranked;
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

Result<std::vector<RankedHead>> FindHeads(LlamaEngine* engine,
                                          const std::function<Result<DB>()>& open_scratch,
                                          const std::function<bool()>& keep_going) {
  const std::string& dir = engine->options().cache_dir;
  std::filesystem::path kept;
  if (!dir.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(const std::string name, TextDigest(engine->spec().fingerprint));
    kept = std::filesystem::path(dir) / "find-heads" / name;
    if (auto heads = HeadsFromText(ReadKeptFile(kept), engine->spec())) return *std::move(heads);
  }
  ATTNDB_ASSIGN_OR_RETURN(const DB scratch, open_scratch());
  ATTNDB_ASSIGN_OR_RETURN(std::vector<RankedHead> heads, RankHeads(engine, scratch, keep_going));
  heads.resize(std::min(heads.size(), kNumFindHeads));
  if (!kept.empty()) KeepFile(kept, ToText(heads));
  return heads;
}

}  // namespace attndb::llama
