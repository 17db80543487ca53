// A program outside of attndb's tree: replays some conversations through two tiers. It links the
// simulator and no store.
#include <attndb/tiers.h>

#include <cstdio>

int main() {
  const attndb::SimulateOptions options = {.num_conversations = 100};
  const attndb::Result<attndb::SimulateReport> report = attndb::Simulate(options);
  if (!report.ok()) {
    std::fprintf(stderr, "%s\n", report.status().ToString().c_str());
    return 1;
  }
  std::printf("%s", report->ToText().c_str());
  return 0;
}
