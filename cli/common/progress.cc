#include "cli/common/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "cli/common/display_width.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

constexpr size_t kMaxBar = 30;
constexpr size_t kMinBar = 10;
constexpr double kRedrawSeconds = 0.1;
constexpr double kMinRateSeconds = 0.2;  // A rate over less time than this is noise.

std::string Amount(const ProgressState& state, uint64_t amount) {
  return state.unit == "bytes" ? FormatBytes(amount) : FormatCount(amount);
}

std::string UnitSuffix(const ProgressState& state) {
  return state.unit == "bytes" ? "" : " " + state.unit;
}

std::string Bar(double share, size_t width) {
  const auto filled = static_cast<size_t>(share * static_cast<double>(width));
  return "[" + std::string(filled, '#') + std::string(width - filled, '.') + "]";
}

// The parts after the bar, most important first.
std::vector<std::string> Parts(const ProgressState& state, uint64_t done) {
  std::vector<std::string> parts;
  if (state.total > 0) {
    parts.push_back(std::to_string(done * 100 / state.total) + " %");
    parts.push_back(Amount(state, done) + " of " + Amount(state, state.total) + UnitSuffix(state));
  } else {
    parts.push_back(Amount(state, done) + UnitSuffix(state));
  }
  const uint64_t worked = done - std::min(done, state.done_at_start);
  if (worked == 0 || state.elapsed_seconds < kMinRateSeconds) return parts;
  const double rate = static_cast<double>(worked) / state.elapsed_seconds;
  parts.push_back(Amount(state, static_cast<uint64_t>(rate)) + UnitSuffix(state) + "/s");
  if (done < state.total) {
    const double left = static_cast<double>(state.total - done) / rate;
    parts.push_back(FormatSeconds(left < 1 ? 1 : left) + " left");
  }
  return parts;
}

}  // namespace

std::string RenderProgress(const ProgressState& state, size_t width) {
  const uint64_t done = state.total > 0 ? std::min(state.done, state.total) : state.done;
  std::vector<std::string> parts = Parts(state, done);
  const auto text_of = [&] {
    std::string text;
    for (const std::string& part : parts) text += "  " + part;
    return text;
  };
  std::string text = text_of();
  while (parts.size() > 1 && DisplayWidth(state.label) + DisplayWidth(text) > width) {
    parts.pop_back();
    text = text_of();
  }
  const size_t used = DisplayWidth(state.label) + DisplayWidth(text) + 4;  // Two spaces, [].
  if (state.total == 0 || width < used + kMinBar) return (state.label + text).substr(0, width);
  const double share = static_cast<double>(done) / static_cast<double>(state.total);
  return state.label + "  " + Bar(share, std::min(kMaxBar, width - used)) + text;
}

ProgressLine::ProgressLine(Options options)
    : options_([&] {
        if (options.stream == nullptr) {
          options.stream = stderr;
          options.enabled = options.enabled && IsTerminal(stderr);
        }
        if (options.seconds == nullptr) options.seconds = MonotonicSeconds;
        return std::move(options);
      }()),
      start_seconds_(options_.seconds()) {}

ProgressLine::~ProgressLine() { Clear(); }

double ProgressLine::elapsed_seconds() const { return options_.seconds() - start_seconds_; }

void ProgressLine::Update(uint64_t done, uint64_t total) {
  if (!options_.enabled) return;
  const double now = options_.seconds();
  const bool at_end = total > 0 && done >= total;
  if (visible_ && !at_end && now - last_drawn_seconds_ < kRedrawSeconds) return;
  ProgressState state;
  state.label = options_.label;
  state.unit = options_.unit;
  state.done = done;
  state.total = total;
  state.done_at_start = options_.done_at_start;
  state.elapsed_seconds = now - start_seconds_;
  // The last column stays free: some terminals wrap there.
  const size_t width = options_.width > 0 ? options_.width : TerminalWidth(options_.stream);
  std::fprintf(options_.stream, "\r%s\x1b[K", RenderProgress(state, width - 1).c_str());
  std::fflush(options_.stream);
  last_drawn_seconds_ = now;
  visible_ = true;
}

void ProgressLine::Clear() {
  if (!visible_) return;
  std::fputs("\r\x1b[K", options_.stream);
  std::fflush(options_.stream);
  visible_ = false;
}

size_t TerminalWidth(std::FILE* stream) {
  winsize size = {};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

size_t StdoutWidth() { return IsTerminal(stdout) ? TerminalWidth(stdout) : SIZE_MAX; }

bool IsTerminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

double MonotonicSeconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace attndb::cli
