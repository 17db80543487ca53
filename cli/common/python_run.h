// What the command line leaves to the Python package: a module of it, in a process of its own.
//
// Which:   $ATTNDB_PYTHON, which `python -m attndb` sets to itself, else python3 of the PATH. The
//          current folder is none of its modules' (-P): what lies there is not run.
// Trust:   what it prints is data: objects of JSON, a line each, of limited length.
// Errors:  kUnsupported (no such Python; it lacks the package, or what that needs: named);
//          kCancelled (a signal: InterruptScope; the process is ended); kResourceExhausted (no
//          process); what an object {"error": {"code", "message"}} says; kInternal (it failed
//          without a word of why).
// Threads: one call at a time; other threads may run.
#ifndef ATTNDB_CLI_COMMON_PYTHON_RUN_H_
#define ATTNDB_CLI_COMMON_PYTHON_RUN_H_

#include <functional>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "cli/environment.h"

namespace attndb::cli {

// The Python that is run, as a path or a name.
std::string PythonProgram();

// Runs `python -m module arguments...`. `on_object` gets each object that it prints, as it comes.
Status RunPython(Environment* env, const std::string& module,
                 const std::vector<std::string>& arguments,
                 const std::function<void(const Json&)>& on_object);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_PYTHON_RUN_H_
