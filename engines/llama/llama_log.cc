#include "engines/llama/llama_log.h"

#include <llama.h>

#include <algorithm>
#include <deque>
#include <mutex>

namespace attndb::llama {
namespace {

constexpr size_t kLinesMax = 8;
constexpr size_t kLineCharsMax = 300;

struct Log {
  std::mutex mutex;
  std::deque<std::string> errors;
  std::deque<std::string> warnings;

  static Log& Get() {
    static Log log;  // llama.cpp's callback is a global of the process; so is its state.
    return log;
  }
};

void Keep(std::deque<std::string>& lines, std::string line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  if (line.empty()) return;
  if (line.size() > kLineCharsMax) line.resize(kLineCharsMax);
  if (lines.size() == kLinesMax) lines.pop_front();
  lines.push_back(std::move(line));
}

void OnLog(ggml_log_level level, const char* text, void*) {
  if (level != GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_WARN) return;
  Log& log = Log::Get();
  const std::lock_guard<std::mutex> lock(log.mutex);
  Keep(level == GGML_LOG_LEVEL_ERROR ? log.errors : log.warnings, text);
}

}  // namespace

void BeginLog() {
  static std::once_flag installed;
  std::call_once(installed, [] { llama_log_set(OnLog, nullptr); });
  Log& log = Log::Get();
  const std::lock_guard<std::mutex> lock(log.mutex);
  log.errors.clear();
  log.warnings.clear();
}

std::string LoggedComplaints() {
  Log& log = Log::Get();
  const std::lock_guard<std::mutex> lock(log.mutex);
  std::string text;
  for (const std::string& line : log.errors.empty() ? log.warnings : log.errors) {
    if (!text.empty()) text += "; ";
    text += line;
  }
  return text;
}

}  // namespace attndb::llama
