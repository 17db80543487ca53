// The part of `import` that needs a model: a text becomes a context. A build without an engine has
// one that says so.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_DOCUMENT_IMPORT_H_
#define ATTNDB_CLI_COMMON_DOCUMENT_IMPORT_H_

#include <memory>
#include <string>

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

  // Runs the text of `file`, or of stdin if it is "-", through the model and stores it.
  virtual Result<ExitCode> Run(Environment* env, const std::string& file, ImportTarget* target) = 0;
};

// commands/import_document.cc, or no_engine.cc.
std::unique_ptr<DocumentImport> MakeDocumentImport();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_DOCUMENT_IMPORT_H_
