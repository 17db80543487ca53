// A generated text of facts between other sentences, and a question for each fact, by which it can
// be told whether a head looks for the answer.
//
// Facts come in a few forms, each several times with other names, so that a head that knows only
// the form finds no more than chance does. Half of the questions say it in the fact's words, half
// in others. The text of a seed is the same everywhere.
//
// Errors:  none.
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_NEEDLE_TEXT_H_
#define ATTNDB_ENGINES_LLAMA_NEEDLE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace attndb::llama {

struct Needle {
  std::string filler;  // What stands before the fact.
  std::string fact;
  std::string question;
};

std::vector<Needle> MakeNeedles(size_t num_needles, uint64_t seed);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_NEEDLE_TEXT_H_
