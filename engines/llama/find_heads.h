// Finds by trial which heads of a model look for what a question asks for.
//
// Method:  a generated text of facts (needle_text.h) is stored, and each question asked of all
//          heads at once (DB::Find). A head is worth the mean, over questions, of one over the
//          place at which it alone ranks the fact's passage. The best kNumFindHeads are taken. The
//          facts' forms and names are none of those that attndb's own figures are measured with.
// Kept:    the answer, in a small text file a model in `cache_dir`, by the model's fingerprint, so
//          that the trial of some seconds runs once. A cache that can't be read or written is not
//          an error.
// Errors:  as LlamaEngine::Prefill and DB::Find; kUnsupported (no tokenizer).
// Threads: as the engine: one thread at a time. HeadTrial, KeptFindHeads and KeepFindHeads run
//          nothing, and may be used on any thread. Processes may share the folder.
#ifndef ATTNDB_ENGINES_LLAMA_FIND_HEADS_H_
#define ATTNDB_ENGINES_LLAMA_FIND_HEADS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/find.h"
#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/needle_text.h"

namespace attndb::llama {

inline constexpr size_t kNumFindHeads = 6;

struct RankedHead {
  FindHead head;
  double worth = 0;  // 1: it puts the right passage first, for each question.
};

// All heads, the best first. `scratch` is a store without contexts; the trial's text is stored
// there. `keep_going` is called now and then; false stops with kCancelled. It may be null.
Result<std::vector<RankedHead>> RankHeads(LlamaEngine* engine, const DB& scratch,
                                          const std::function<bool()>& keep_going = nullptr);

// The kNumFindHeads best heads: as they were kept, or else ranked in a store that `open_scratch`
// opens, and kept.
Result<std::vector<RankedHead>> FindHeads(LlamaEngine* engine,
                                          const std::function<Result<DB>()>& open_scratch,
                                          const std::function<bool()>& keep_going = nullptr);

// A trial for a caller that runs the model itself. The caller stores text() in an empty store, asks
// each question of heads() there with FindAll, and hands over what was found.
class HeadTrial {
 public:
  static Result<HeadTrial> Make(const LlamaEngine& engine);

  std::span<const TokenId> text() const { return text_; }
  std::span<const FindHead> heads() const { return heads_; }  // All of the model.
  size_t num_questions() const { return needles_.size(); }
  const std::string& question(size_t i) const { return needles_[i].question; }
  // Finds all passages of `scratch` that the question's heads attend to.
  static Result<FindResult> FindAll(const ModelSpec& spec, const DB& scratch,
                                    const FindQuery& query);
  // `found`: the answer to question(i). Each question is judged once.
  void Judge(size_t i, const FindResult& found);
  // Once all questions are judged: all heads, the best first.
  std::vector<RankedHead> Ranked() const;

 private:
  HeadTrial() = default;

  std::vector<Needle> needles_;
  std::vector<TokenId> text_;
  std::vector<TokenRange> facts_;  // Where the facts lie, in tokens of the text.
  std::vector<FindHead> heads_;
  std::vector<double> worths_;  // By head.
};

// The best heads as they were kept for this model; nullopt: they were not.
std::optional<std::vector<RankedHead>> KeptFindHeads(const LlamaEngine& engine);
// Keeps the kNumFindHeads best of `ranked`, and returns them.
std::vector<RankedHead> KeepFindHeads(const LlamaEngine& engine, std::vector<RankedHead> ranked);

// The file's text, and the heads that a text lists; nothing if it is not such a text, or lists
// heads that the spec does not have. For tests.
std::string ToText(const std::vector<RankedHead>& heads);
std::optional<std::vector<RankedHead>> HeadsFromText(const std::string& text,
                                                     const ModelSpec& spec);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_FIND_HEADS_H_
