#include "cli/common/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace attndb::cli {
namespace {

constexpr int64_t kMinute = 60;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kDay = 24 * kHour;
constexpr int64_t kWeek = 7 * kDay;

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Seconds in the unit that a duration ends with; 0 if it is none.
int64_t SecondsIn(std::string_view unit) {
  if (unit.empty() || unit == "s") return 1;
  if (unit == "m" || unit == "min") return kMinute;
  if (unit == "h") return kHour;
  if (unit == "d") return kDay;
  if (unit == "w") return kWeek;
  return 0;
}

// Reads one time with a unit off the front of `*text`, and returns its seconds. `*last_unit` holds
// the unit of the time before, and then of this one: units fall, as in "1h30m".
std::optional<double> TakeTime(std::string_view* text, int64_t* last_unit) {
  double count = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, count, std::chars_format::fixed);
  if (error != std::errc() || !(count >= 0)) return std::nullopt;
  *text = Trim(text->substr(static_cast<size_t>(rest - text->data())));
  const size_t num_letters = std::min(text->find_first_of("0123456789. "), text->size());
  const int64_t unit = SecondsIn(text->substr(0, num_letters));
  if (num_letters == 0 || unit == 0 || unit >= *last_unit) return std::nullopt;
  *last_unit = unit;
  *text = Trim(text->substr(num_letters));
  return count * static_cast<double>(unit);
}

// The seconds of "90", "1.5h" or "1h30m"; none: it is no time, or not from 1 s to 100 years.
std::optional<int64_t> SecondsOf(std::string_view text) {
  constexpr double kMostSeconds = 100.0 * 366 * kDay;
  const bool is_count = text.find_first_not_of("0123456789") == std::string_view::npos;
  const std::string with_unit = std::string(text) + (is_count && !text.empty() ? "s" : "");
  double seconds = 0;
  int64_t unit = kWeek + 1;
  std::string_view rest = with_unit;
  do {
    const std::optional<double> time = TakeTime(&rest, &unit);
    if (!time) return std::nullopt;
    seconds += *time;
  } while (!rest.empty());
  if (!(seconds >= 1 && seconds <= kMostSeconds)) return std::nullopt;
  return static_cast<int64_t>(std::llround(seconds));
}

// The power of 1024 that a size ends with; -1 if it is none.
int PowerOf(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 0;
  constexpr std::string_view kPrefixes = "KMGTP";
  const char prefix =
      unit.front() >= 'a' ? static_cast<char>(unit.front() - 'a' + 'A') : unit.front();
  const size_t found = kPrefixes.find(prefix);
  const std::string_view rest = unit.substr(1);
  if (found == std::string_view::npos) return -1;
  if (!rest.empty() && rest != "B" && rest != "iB" && rest != "b" && rest != "i") return -1;
  return static_cast<int>(found) + 1;
}

}  // namespace

std::string FormatFixed(double value, int decimals) {
  std::array<char, 64> text;
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return std::string(text.data(), static_cast<size_t>(length < 63 ? length : 63));
}

std::string FormatSeconds(double seconds) {
  if (seconds < 0.001) return FormatFixed(seconds * 1e6, 0) + " us";
  if (seconds < 0.9995) return FormatFixed(seconds * 1e3, seconds < 0.01 ? 1 : 0) + " ms";
  if (seconds < 59.95) return FormatFixed(seconds, 1) + " s";
  const auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 1e15)));
  if (whole < kHour) {
    return std::to_string(whole / kMinute) + " min " + std::to_string(whole % kMinute) + " s";
  }
  return std::to_string(whole / kHour) + " h " + std::to_string(whole % kHour / kMinute) + " min";
}

std::string FormatAge(int64_t then_us, int64_t now_us) {
  const int64_t seconds = (now_us - then_us) / 1'000'000;
  if (seconds < 0) return "in the future";
  if (seconds < 5) return "just now";
  if (seconds < kMinute) return std::to_string(seconds) + " s ago";
  if (seconds < kHour) return std::to_string(seconds / kMinute) + " min ago";
  if (seconds < kDay) return std::to_string(seconds / kHour) + " h ago";
  return Counted(static_cast<uint64_t>(seconds / kDay), "day") + " ago";
}

std::string FormatTime(int64_t time_us) {
  const std::time_t seconds = static_cast<std::time_t>(time_us / 1'000'000);
  std::tm local = {};
  if (localtime_r(&seconds, &local) == nullptr) return "?";
  std::array<char, 32> text;
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return std::string(text.data(), length);
}

std::string FormatTtl(std::optional<int64_t> ttl_seconds) {
  if (!ttl_seconds) return "never";
  const int64_t seconds = *ttl_seconds;
  if (seconds != 0 && seconds % kDay == 0) return std::to_string(seconds / kDay) + " d";
  if (seconds != 0 && seconds % kHour == 0) return std::to_string(seconds / kHour) + " h";
  if (seconds != 0 && seconds % kMinute == 0) return std::to_string(seconds / kMinute) + " min";
  return std::to_string(seconds) + " s";
}

Result<std::optional<std::chrono::seconds>> ParseTtl(std::string_view text) {
  if (text == "never") return std::optional<std::chrono::seconds>();
  if (const std::optional<int64_t> seconds = SecondsOf(text)) {
    return std::optional(std::chrono::seconds(*seconds));
  }
  return Status::InvalidArgument("'" + std::string(text) +
                                 "' is no time to live; expected seconds, 90s, 15m, 1.5h, 1h30m, "
                                 "7d or never");
}

Result<uint64_t> ParseBytes(std::string_view text) {
  const Status bad = Status::InvalidArgument("'" + std::string(text) +
                                             "' is no size; expected bytes, 512M or 1.5GiB");
  double count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const int power = PowerOf(Trim(text.substr(static_cast<size_t>(end - text.data()))));
  if (error != std::errc() || !(count >= 0) || power < 0) return bad;
  const double bytes = count * std::pow(1024.0, power);
  if (!(bytes < 9.0e18)) return bad;
  return static_cast<uint64_t>(bytes);
}

Result<uint64_t> ParseLimit(std::string_view text) {
  if (text == "none") return uint64_t{0};
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(text));
  if (bytes > 0) return bytes;
  return Status::InvalidArgument("a limit of 0 bytes would store nothing, expected a size or none");
}

int64_t NowUs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace attndb::cli
