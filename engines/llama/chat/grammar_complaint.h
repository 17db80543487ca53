// Why llama.cpp refuses a grammar, by what it prints.
//
// Threads: a pure function.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_COMPLAINT_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_COMPLAINT_H_

#include <string>
#include <string_view>

namespace attndb::llama {

// llama.cpp prints a complaint, then the whole grammar. Where the complaint ends with the rest of
// the grammar, from the place on that is meant, this says "line 2, column 7" instead.
std::string GrammarComplaint(std::string_view printed, std::string_view grammar);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_COMPLAINT_H_
