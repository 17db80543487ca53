#include "storage/tier/policy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "common/quote.h"

namespace attndb::tier {
namespace {

struct Name {
  std::string_view text;
  Order order;
};
constexpr std::array kNames = {
    Name{"none", Order::kNone},     Name{"lru", Order::kLru},
    Name{"fifo", Order::kFifo},     Name{"attention_store", Order::kAttentionStore},
    Name{"attndb", Order::kAttndb}, Name{"belady", Order::kBelady},
};

struct Key {
  std::string_view name;
  double low;
  double high;
};
constexpr double kMaxSeconds = 1e9;
constexpr std::array kKeys = {
    Key{"cut", 0, 1},           Key{"bytes", 0, 1},  Key{"prefer", 0, kMaxSeconds},
    Key{"ttl", 1, kMaxSeconds}, Key{"free", 0, 0.9},
};

Policy DefaultOf(Order order) {
  Policy policy;
  policy.order = order;
  policy.cut_at_save = order == Order::kAttndb;
  return policy;
}

double Get(const Policy& policy, std::string_view key) {
  if (key == "cut") return policy.cut_at_save ? 1 : 0;
  if (key == "bytes") return policy.byte_weight;
  if (key == "prefer") return policy.prefer_seconds;
  return key == "ttl" ? policy.ttl_seconds : policy.free_share;
}

void Set(Policy* policy, std::string_view key, double value) {
  if (key == "cut") policy->cut_at_save = value != 0;
  if (key == "bytes") policy->byte_weight = value;
  if (key == "prefer") policy->prefer_seconds = value;
  if (key == "ttl") policy->ttl_seconds = value;
  if (key == "free") policy->free_share = value;
}

std::string NumberText(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return std::string(text.data(), end);
}

Status Refused(std::string_view text, const std::string& why) {
  return Status::InvalidArgument("placement policy " + Quoted(text) + ": " + why);
}

// Sets one "key=value" of `text`.
Status SetKey(std::string_view text, std::string_view pair, Policy* policy) {
  const size_t equals = pair.find('=');
  const std::string_view name = pair.substr(0, equals);
  const auto key =
      std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& each) { return each.name == name; });
  if (equals == std::string_view::npos || key == kKeys.end()) {
    return Refused(text, "expected cut=, bytes=, prefer=, ttl= or free=, found " + Quoted(pair));
  }
  const std::string_view digits = pair.substr(equals + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || !(value >= key->low && value <= key->high) ||
      (name == "cut" && value != 0 && value != 1)) {
    return Refused(text, std::string(name) + " is a number in [" + NumberText(key->low) + ", " +
                             NumberText(key->high) + "], found " + Quoted(digits));
  }
  Set(policy, name, value);
  return Status::Ok();
}

}  // namespace

Result<Policy> ParsePolicy(std::string_view text) {
  const size_t open = text.find('(');
  const std::string_view name = text.substr(0, open);
  const auto known = std::find_if(kNames.begin(), kNames.end(),
                                  [&](const Name& each) { return each.text == name; });
  if (known == kNames.end()) {
    return Refused(text, "expected none, lru, fifo, attention_store, attndb or belady");
  }
  Policy policy = DefaultOf(known->order);
  if (open == std::string_view::npos) return policy;
  if (text.back() != ')') return Refused(text, "expected ')' at its end");
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    ATTNDB_RETURN_IF_ERROR(SetKey(text, rest.substr(0, comma), &policy));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return policy;
}

std::string PolicyText(const Policy& policy) {
  std::string text(kNames[static_cast<size_t>(policy.order)].text);
  const Policy usual = DefaultOf(policy.order);
  std::string keys;
  for (const Key& key : kKeys) {
    const double value = Get(policy, key.name);
    if (value == Get(usual, key.name)) continue;
    keys += (keys.empty() ? "" : ",") + std::string(key.name) + "=" + NumberText(value);
  }
  return keys.empty() ? text : text + "(" + keys + ")";
}

double QueueWait(const Outlook& outlook, double place) {
  const double length = outlook.tail_place - outlook.head_place;
  const double ahead = length > 0 ? std::clamp((place - outlook.head_place) / length, 0.0, 1.0)
                                  : (place > outlook.head_place ? 1.0 : 0.0);
  return ahead * outlook.num_queued * outlook.seconds_per_job;
}

double PlaceOf(const Policy& policy, bool returning, double now) {
  return returning ? now - policy.prefer_seconds : now;
}

namespace {

// The chance that the item is used, over the seconds until then.
double ChanceOverTime(const Policy& policy, const Item& item, const Outlook& outlook) {
  if (item.queued) return 1.0 / (1.0 + QueueWait(outlook, item.place));
  double chance = 1.0;
  double remaining = 0.0;
  if (policy.order == Order::kBelady) {
    if (item.next_use == kNever) return 0.0;
    remaining = std::max(0.0, item.next_use - outlook.now);
  } else {
    const double idle = outlook.now - item.last_use;
    const Return expected = outlook.forecast->Expect(item.num_turns, idle);
    chance = expected.chance;
    remaining = expected.seconds;
  }
  // By then the jobs of the present queue have been served, and others have come.
  const double place = PlaceOf(policy, true, outlook.now);
  return chance / (1.0 + remaining + QueueWait(outlook, place));
}

}  // namespace

ItemWorth Worth(const Policy& policy, const Item& item, const Outlook& outlook) {
  switch (policy.order) {
    case Order::kNone:
      return {};
    case Order::kLru:
      return {false, item.last_use};
    case Order::kFifo:
      return {false, item.first_save};
    case Order::kAttentionStore:
      return {item.queued, item.queued ? -item.place : item.last_use};
    case Order::kAttndb:
    case Order::kBelady:
      break;
  }
  double value = ChanceOverTime(policy, item, outlook);
  if (outlook.sizes_count && policy.byte_weight > 0) {
    const auto bytes = static_cast<double>(std::max<uint64_t>(1, item.bytes));
    value /= policy.byte_weight == 1.0 ? bytes : std::pow(bytes, policy.byte_weight);
  }
  return {false, value};
}

uint64_t PrefetchWindow(const Policy& policy, uint64_t memory_bytes, double mean_item_bytes) {
  if (!policy.prefetches() || !(mean_item_bytes > 0)) return 0;
  const double room = static_cast<double>(memory_bytes) * (1.0 - policy.free_share);
  return static_cast<uint64_t>(room / mean_item_bytes);
}

uint64_t SavedTokens(const Policy& policy, uint64_t num_tokens, uint64_t window) {
  if (!policy.cut_at_save || num_tokens < window) return num_tokens;
  return num_tokens - window / 2;
}

}  // namespace attndb::tier
