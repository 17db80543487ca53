// Which heads of a model look for what a question asks for, by trial.
//
// Method:  a generated text of facts (needle_text.h) is stored, and each question asked of all
//          heads at once (DB::Find). A head is worth the mean, over questions, of one over the
//          place at which it alone ranks the fact's passage. The best kNumFindHeads are taken. The
//          facts' forms and names are none of those that attndb's own figures are measured with.
// Kept:    in a small text file a model in `cache_dir`, by the model's fingerprint: what takes some
//          seconds is done once. A cache that can't be read or written is not an error.
// Errors:  as LlamaEngine::Prefill and DB::Find; kUnsupported (no tokenizer).
// Threads: as the engine: one thread at a time. Processes may share the folder.
#ifndef ATTNDB_ENGINES_LLAMA_FIND_HEADS_H_
#define ATTNDB_ENGINES_LLAMA_FIND_HEADS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/find.h"
#include "attndb/result.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

inline constexpr size_t kNumFindHeads = 6;

struct RankedHead {
  FindHead head;
  double worth = 0;  // 1: it puts the right passage first, for each question.
};

// All heads, the best first. `scratch`: a store that has no context, and gets one.
Result<std::vector<RankedHead>> RankHeads(LlamaEngine* engine, const DB& scratch);

// The first of them: kept ones, or ranked in a store that `open_scratch` opens.
Result<std::vector<RankedHead>> FindHeads(LlamaEngine* engine,
                                          const std::function<Result<DB>()>& open_scratch);

// The file's text and back; nothing if it is not such a text, or of another spec. For tests.
std::string ToText(const std::vector<RankedHead>& heads);
std::optional<std::vector<RankedHead>> HeadsFromText(const std::string& text,
                                                     const ModelSpec& spec);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_FIND_HEADS_H_
