// Prompts that leave out pieces of a stored turn, and keep all of its other tokens as they were
// computed: "edits": "cut".
//
//   stored turn    A A A x x x B B B
//   the prompt     A A A       B B B n n n    says all but x x x, and something new
//   what is run                      n n n    in a session that has lost x x x
//   what is stored A A A x x x B B B n n n    with the cut: Session::DropOldest
//
// B was computed while x was there, and keeps something of it: this is approximate, and only done
// if the request asks for it. The next prompt leaves out the same pieces, and is found alike.
//
// Units:   tokens.
// Threads: stateless.
#ifndef ATTNDB_SERVER_BATCH_EDITS_H_
#define ATTNDB_SERVER_BATCH_EDITS_H_

#include <span>
#include <vector>

#include "attndb/types.h"
#include "engines/llama/prompt_layout.h"
#include "server/batch/kept_text.h"

namespace attndb::server {

using llama::Without;

// Puts the ranges of `stored` back into tokens that lack them.
void PutBack(std::span<const TokenId> stored, std::span<const TokenRange> left_out,
             std::vector<TokenId>* tokens);
// Moves the messages of a text whose tokens got these ranges back, and notes in the text that it
// leaves them out.
void PutBack(std::span<const TokenRange> left_out, TextLayout* text);

// Takes the pieces out that left a text: llama::TakeOut.
void TakeOutPieces(KeptText* kept);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_EDITS_H_
