// Starts grammars for replies (grammar_job.h): the process that has the model's vocabulary, and
// that forks a process for each grammar. It is started at the first grammar, and replaced when it
// has died.
//
// Errors:  kUnsupported: there is no attndb-chat; kInvalidArgument: a grammar that is empty, too
//          long, or has a zero byte; kIoError: no process can be started.
// Threads: thread-safe.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_PROCESS_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_PROCESS_H_

#include <llama.h>

#include <memory>
#include <mutex>
#include <string>

#include "attndb/result.h"
#include "engines/llama/chat/chat_process.h"
#include "engines/llama/chat/grammar_job.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

class GrammarProcess {
 public:
  // `program`: the path of attndb-chat. `vocab` is that of the file `model_path`, and outlives
  // this.
  GrammarProcess(std::string program, std::string model_path, const llama_vocab* vocab);

  // Begins to compile a grammar, and does not wait for it. The job may outlive this.
  Result<std::unique_ptr<GrammarJob>> Start(const ReplyConstraint& constraint);

 private:
  // A process that loads the vocabulary, or has it.
  Result<ChatProcess*> Ready();

  const std::string program_;
  const std::string model_path_;
  const llama_vocab* const vocab_;
  std::mutex mutex_;
  std::string digest_;  // VocabDigest; empty before the first grammar.
  std::unique_ptr<ChatProcess> process_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_PROCESS_H_
