#include "bench/bench_progress.h"

#include <memory>
#include <optional>
#include <utility>

#include "cli/common/interrupt.h"
#include "cli/common/progress.h"

namespace attndb::bench {

BenchProgress ShowProgress(const cli::Environment& env,
                           std::function<std::string(const std::string&)> unit_of) {
  struct Shown {
    std::optional<cli::ProgressLine> line;
    std::string phase;
  };
  return
      [enabled = env.show_progress(), unit_of = std::move(unit_of),
       shown = std::make_shared<Shown>()](const std::string& phase, uint64_t done, uint64_t total) {
        if (shown->phase != phase) {
          shown->phase = phase;
          shown->line.reset();
          shown->line.emplace(cli::ProgressLine::Options{
              .label = phase, .unit = unit_of(phase), .enabled = enabled});
        }
        shown->line->Update(done, total);
        return !cli::Interrupted();
      };
}

}  // namespace attndb::bench
