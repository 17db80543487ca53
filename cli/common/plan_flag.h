// The --plan of commands that answer from a context, or explain how it would be.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_PLAN_FLAG_H_
#define ATTNDB_CLI_COMMON_PLAN_FLAG_H_

#include <string>

#include "cli/flags.h"

namespace attndb::cli {

class PlanFlag {
 public:
  void AddTo(Flags* flags) {
    flags->Add({"--plan", "TEXT", "How to attend: auto(error=0.01) (default), full, ..."}, &text_);
  }
  const std::string& text() const { return text_; }

 private:
  // Reads everything where that is cheaper, short contexts among them.
  std::string text_ = "auto(error=0.01)";
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_PLAN_FLAG_H_
