// Whether the linked llama.cpp, with attndb's hook in it, computes here what it should: a forward
// of a tiny quantized model, compared with the same weights in float32.
//
// llama.cpp is compiled for one processor, and a compiler may be wrong about it; both end the
// process at the first forward (an illegal instruction; GCC bug 114098: tiles of AMX used without
// their configuration). So the forward runs in a child process, and its death is reported.
//
// Threads: see child_process.h: before the process has other threads.
#ifndef ATTNDB_ENGINES_LLAMA_SELF_CHECK_H_
#define ATTNDB_ENGINES_LLAMA_SELF_CHECK_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"

namespace attndb::llama {

// Runs the forward in this process. Gives the distance of the quantized model's logits, through
// attndb, from the logits of the same weights in float32 in plain llama.cpp, over the length of the
// latter. Writes files of about 5 MB into `folder`, which exists. Errors: those of opening a model
// and a store, and of a pass.
Result<double> ForwardDifference(const std::string& folder);

// Ok if ForwardDifference is rounding. Errors: as ForwardDifference; kInternal (a larger
// difference).
Status CheckForward(const std::string& folder);

// Whether rounding makes such a difference; false for NaN.
bool IsRounding(double difference);

struct SelfCheck {
  bool ok = false;
  std::string signal;   // The signal that ended the child ("SIGILL"), or "".
  std::string problem;  // What was seen; "" if ok.
  std::string advice;   // What to do about it; "" if ok.
  double seconds = 0;
  // Instruction sets that llama.cpp was compiled for: "AVX2", "AMX_INT8", ... Empty if the child
  // died before it said so.
  std::vector<std::string> instruction_sets;
};

using ForwardStep = std::function<Status(const std::string& folder)>;

// Runs `forward` in a child process, two minutes at most.
SelfCheck RunSelfCheck(const std::string& folder, const ForwardStep& forward = CheckForward);

// The instruction sets in llama.cpp's own words: "CPU : AVX = 1 | AVX2 = 1 | OPENMP = 1 | ".
std::vector<std::string> ReadInstructionSets(std::string_view system_info);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_SELF_CHECK_H_
