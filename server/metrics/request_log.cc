#include "server/metrics/request_log.h"

#include <cmath>
#include <ctime>

#include "attndb/units.h"
#include "server/json.h"

namespace attndb::server {
namespace {

constexpr int64_t kMicros = 1'000'000;

// Milliseconds, to a thousandth.
double Milliseconds(double seconds) { return std::round(seconds * 1e6) / 1e3; }

std::string MillisecondsText(double seconds) {
  char text[40];
  const int length =
      std::snprintf(text, sizeof(text), "%.*f ms", seconds < 0.1 ? 1 : 0, seconds * 1e3);
  return {text, static_cast<size_t>(length)};
}

std::string JsonLine(const LoggedRequest& request) {
  Json json = {{"time", UtcText(request.time_us)},   {"request_id", request.request_id},
               {"method", request.method},           {"route", request.route},
               {"status", request.status},           {"tenant", request.tenant},
               {"ms", Milliseconds(request.seconds)}};
  if (!request.path.empty()) json["path"] = request.path;
  if (request.num_prompt_tokens > 0) {
    json["prompt_tokens"] = request.num_prompt_tokens;
    json["cached_tokens"] = request.num_cached_tokens;
    json["reply_tokens"] = request.num_reply_tokens;
    json["first_token_ms"] = Milliseconds(request.first_token_seconds);
    if (request.num_cut_tokens > 0) json["cut_tokens"] = request.num_cut_tokens;
    if (!request.parted.empty()) json["parted"] = request.parted;
    if (request.num_ignored_lines > 0) json["ignored_lines"] = request.num_ignored_lines;
  }
  return ToText(json) + "\n";
}

std::string TextLine(const LoggedRequest& request) {
  std::string line = UtcText(request.time_us) + " ";
  line.append(request.method).append(" ");
  if (!request.path.empty()) line.append(request.path).append(" ");
  line.append(request.route.empty() ? "(no route)" : request.route).append(" ");
  line += std::to_string(request.status) + " " + MillisecondsText(request.seconds);
  if (request.num_prompt_tokens > 0) {
    line += ", " + Counted(request.num_prompt_tokens, "token") + " (" +
            std::to_string(request.num_cached_tokens) + " cached), " +
            std::to_string(request.num_reply_tokens) + " in the reply, the first after " +
            MillisecondsText(request.first_token_seconds);
    if (request.num_cut_tokens > 0) {
      line.append(", ").append(std::to_string(request.num_cut_tokens)).append(" cut");
    }
    if (!request.parted.empty()) line.append(", parted at ").append(request.parted);
    if (request.num_ignored_lines > 0) {
      line.append(", ").append(Counted(request.num_ignored_lines, "line")).append(" ignored");
    }
  }
  line.append(", ").append(request.tenant).append(", ").append(request.request_id);
  return line + "\n";
}

// Whether a byte of a path stands for itself in a URL and in a line.
bool IsPlain(char c) { return c > ' ' && c <= '~' && c != '%' && c != '"' && c != '\\'; }

}  // namespace

std::string LoggedPath(std::string_view path) {
  std::string text;
  for (const char c : path) {
    char form[4] = {c};
    if (!IsPlain(c)) std::snprintf(form, sizeof(form), "%%%02X", static_cast<unsigned char>(c));
    if (text.size() + std::string_view(form).size() > kMaxLoggedPath) return text + "...";
    text += form;
  }
  return text;
}

std::string UtcText(int64_t time_us) {
  const auto seconds = static_cast<std::time_t>(time_us / kMicros);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char date[40];
  const size_t length = std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
  char millis[8];
  std::snprintf(millis, sizeof(millis), ".%03dZ", static_cast<int>(time_us % kMicros / 1000));
  return std::string(date, length) + millis;
}

std::string LogLine(LogFormat format, const LoggedRequest& request) {
  switch (format) {
    case LogFormat::kOff:
      return "";
    case LogFormat::kText:
      return TextLine(request);
    case LogFormat::kJson:
      return JsonLine(request);
  }
  return "";
}

void RequestLog::Write(const LoggedRequest& request) {
  const std::string line = LogLine(format_, request);
  if (line.empty()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  std::fwrite(line.data(), 1, line.size(), stream_);
  std::fflush(stream_);
}

}  // namespace attndb::server
