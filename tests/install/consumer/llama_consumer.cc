// A program outside of attndb's tree that runs a model: needs the adapter's headers, and llama.cpp
// when it is linked. Usage: llama_consumer MODEL FOLDER
#include <attndb/attndb.h>
#include <attndb/llama/llama_engine.h>
#include <attndb/llama/model_file.h>
#include <attndb/llama/plain_context.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

using attndb::Result;
using attndb::llama::LlamaEngine;

Result<std::string> Run(const std::string& model, const std::string& path) {
  ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, LlamaEngine::Open(model));
  ATTNDB_ASSIGN_OR_RETURN(const attndb::DB db, attndb::DB::Open(path));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<attndb::TokenId> prompt,
                          engine.Tokenize("The captain of the ship is", true, false));
  ATTNDB_ASSIGN_OR_RETURN(attndb::SessionStart start, db.CreateSession(engine.spec(), prompt));
  ATTNDB_ASSIGN_OR_RETURN(const attndb::llama::Generation generation,
                          engine.Generate(start.session, start.rest, {.max_tokens = 4}));
  return generation.text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const Result<std::string> text = Run(argv[1], argv[2]);
  std::fprintf(text.ok() ? stdout : stderr, "%s\n",
               text.ok() ? text.value().c_str() : text.status().ToString().c_str());
  return text.ok() ? 0 : 1;
}
