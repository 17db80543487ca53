// Asks a store everything that it can be asked, so that two stores can be compared: what they say,
// where they report damage, and whether any output is wrong.
//
// Threads: thread-compatible.
#ifndef ATTNDB_TESTS_CRASH_EXAMINATION_H_
#define ATTNDB_TESTS_CRASH_EXAMINATION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/types.h"
#include "testing/toy_model.h"

namespace attndb::test {

// A context that the store was given.
struct KnownContext {
  std::string tenant;
  std::string name;
  std::vector<TokenId> tokens;
};

// Where damage can show, in the order in which a user meets it.
enum class Stage : uint8_t { kOpen, kList, kDescribe, kTokens, kLookup, kAttend, kVerify };
inline constexpr size_t kNumStages = 7;
const char* StageName(Stage stage);

struct Examination {
  struct Report {
    Stage stage = Stage::kOpen;
    std::string message;
  };

  std::vector<Report> reports;                 // Errors, damage flags and findings, in order.
  std::map<std::string, std::string> answers;  // By question; what failed is not in it.
  // Outputs that are not what float64 attention over the context's tokens gives.
  std::vector<std::string> wrong_outputs;
  // Known contexts that are "not found": what is damaged must be called damaged.
  std::vector<std::string> lost;
  // Status codes that damage must not give (kInternal), and other nonsense.
  std::vector<std::string> absurdities;

  bool reported() const { return !reports.empty(); }
};

// Opens the store at `path` and asks; nothing it does may end the process.
Examination Examine(const std::string& path, const DBOptions& options, const ToyModel& model,
                    const std::vector<KnownContext>& contexts);

// Questions that both answered, differently. A question that only one answered is in `reports`.
std::vector<std::string> Differences(const Examination& expected, const Examination& found);

}  // namespace attndb::test

#endif  // ATTNDB_TESTS_CRASH_EXAMINATION_H_
