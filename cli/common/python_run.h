// Runs a module of the Python package in a separate process, for commands that Python implements.
//
// Python:  $ATTNDB_PYTHON, which `python -m attndb` sets to itself, else python3 of the PATH. The
//          current folder is not searched for modules (-P): code in it is not run.
// Trust:   its output is data: JSON objects, one per line, of limited length.
// Errors:  kUnsupported (no such Python; the package, or a dependency, is missing: named);
//          kCancelled (a signal: InterruptScope; the process is ended); kResourceExhausted (no
//          process); the error of an object {"error": {"code", "message"}}; kInternal (it failed
//          without a message).
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
