// The part of `import` that needs a model: texts become contexts. A build without an engine has
// one that says so.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_DOCUMENT_IMPORT_H_
#define ATTNDB_CLI_COMMON_DOCUMENT_IMPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "cli/common/exit_code.h"
#include "cli/common/import_target.h"
#include "cli/environment.h"
#include "cli/flags.h"

namespace attndb::cli {

class DocumentImport {
 public:
  virtual ~DocumentImport() = default;

  virtual void AddFlags(Flags* flags) = 0;

  // Runs the texts that `arguments` name (import_sources.h) through the model and stores each.
  virtual Result<ExitCode> Run(Environment* env, const std::vector<std::string>& arguments,
                               const ImportTarget& target) = 0;
};

// commands/import_document.cc, or no_engine.cc.
std::unique_ptr<DocumentImport> MakeDocumentImport();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_DOCUMENT_IMPORT_H_
