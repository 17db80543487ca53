// The tokens of a whole rendered prompt, behind stored tokens that say what the prompt says.
//
// A prompt is a list of items: control tokens, and texts that are never parsed for control tokens.
// A run is the text between two control tokens. Several items may make one run, and a run may be
// empty. Control tokens that strip spaces take them from the texts beside them, but from no content
// (prompt_items.h). The model's begin-of-text token is no item: it stands in front of all items.
//
// The first n stored tokens SPELL a beginning of the prompt if these rules hold:
//   1. The first token is the begin-of-text token, if the model wants one.
//   2. The control tokens are those of the prompt, one by one.
//   3. A run that a control token follows is spelled whole: the pieces of its tokens are the bytes
//      of the run, or the tokenizer makes these tokens of the run.
//   4. The tokens behind the last control token spell their run whole, or their pieces are first
//      bytes of it, one at least. In the second case the rest begins with a whole character.
//   5. A token without bytes, such as the unknown token, has no piece. It spells nothing, unless it
//      is among the tokens that the tokenizer makes of a whole run.
// Some tokenizers set a space before each text. There the first piece of a run has one space more
// than the run. It may also have none more, as a reply shows this space. If the tokens allow both,
// the reading counts that spells the whole run, else the one that spells more tokens, else the one
// with one space more.
//
// Follow takes the largest such n. It joins the rest of the prompt to the first n tokens as Join
// does. So a reply keeps its tokens, although the tokenizer would cut its bytes otherwise. The end
// of the last run is tokenized again with the rest if it is the tokenizer's own: if the tokenizer
// makes these tokens of it, alone or with the stored text that stands behind it.
// num_kept counts the first tokens that are equal to the stored ones. It is less than n if the end
// of the last run changes, and more if the tokenizer makes some of the next stored tokens again.
//
// If Join made the stored tokens of some whole text, Follow's are those of Join({}, prompt). There
// is one exception: a stored run that has one space less in front than the prompt's is taken for a
// reply that shows this space.
//
// The prompt and the stored tokens part at the first byte of the prompt, or its first control
// token, that the stored tokens do not say. They part nowhere if one is the beginning of the other,
// or if all stored tokens are kept. A tokenizer that changes texts (capitals, double spaces) may
// make the place too early: it is then the first byte that was changed.
//
// Errors:  as Tokenizer's.
// Cost:    the spelled tokens are compared with the prompt. Only the rest is tokenized, and the end
//          of the last run; and once more the run in which both part.
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_TEXT_FOLLOW_H_
#define ATTNDB_ENGINES_LLAMA_TEXT_FOLLOW_H_

#include <span>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {

// LlamaEngine::Follow.
Result<FollowedText> FollowText(const Tokenizer& tokenizer, std::span<const TokenId> before,
                                std::span<const PromptItem> items, const FollowOptions& options);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_TEXT_FOLLOW_H_
