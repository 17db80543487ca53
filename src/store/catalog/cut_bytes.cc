#include "store/catalog/cut_bytes.h"

#include <algorithm>
#include <string>
#include <utility>

namespace attndb::store {
namespace {

constexpr std::byte kTag{0xff};
constexpr size_t kNumberBytes = 8;
constexpr uint64_t kMaxTokens = uint64_t{1} << 31;

void Put(uint64_t value, std::vector<std::byte>* bytes) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes->push_back(static_cast<std::byte>(value >> shift));
  }
}

uint64_t Get(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (const std::byte byte : bytes.first(kNumberBytes)) {
    value = value << 8 | std::to_integer<uint64_t>(byte);
  }
  return value;
}

std::string Text(uint64_t value) { return std::to_string(value); }

// Why it can't be a cut; empty if it can.
std::string Fault(const Cut& cut) {
  if (cut.at == 0 || cut.at > kMaxTokens) return "is at " + Text(cut.at) + " tokens";
  if (cut.dropped.empty()) return "drops nothing";
  if (cut.dropped.size() > kMaxCutRanges) {
    return "drops " + Text(cut.dropped.size()) + " ranges, expected at most " + Text(kMaxCutRanges);
  }
  uint64_t least = 0;
  for (const TokenRange& range : cut.dropped) {
    if (range.begin < least || range.begin >= range.end || range.end >= cut.at) {
      return "drops [" + Text(range.begin) + ", " + Text(range.end) +
             "): expected ranges in order, not adjacent, below " + Text(cut.at);
    }
    least = range.end + 1;
  }
  return "";
}

// Checks the dropped tokens of all cuts: none twice, and no more gaps than a session has pieces.
Status CheckDropped(std::vector<TokenRange> dropped) {
  std::ranges::sort(dropped, {}, &TokenRange::begin);
  size_t num_gaps = 0;
  uint64_t end = 0;
  for (const TokenRange& range : dropped) {
    if (range.begin < end) {
      return Status::InvalidArgument("the cuts drop token " + Text(range.begin) + " twice");
    }
    num_gaps += num_gaps == 0 || range.begin > end ? 1 : 0;
    end = range.end;
  }
  if (num_gaps <= kMaxCutRanges) return Status::Ok();
  return Status::InvalidArgument("the cuts leave " + Text(num_gaps) + " gaps, expected at most " +
                                 Text(kMaxCutRanges));
}

}  // namespace

std::vector<std::byte> EncodeCut(const Cut& cut) {
  std::vector<std::byte> bytes = {kTag};
  Put(cut.at, &bytes);
  for (const TokenRange& range : cut.dropped) {
    Put(range.begin, &bytes);
    Put(range.end, &bytes);
  }
  return bytes;
}

Result<Cut> DecodeCut(std::span<const std::byte> bytes) {
  constexpr size_t kRangeBytes = 2 * kNumberBytes;
  constexpr size_t kHeadBytes = 1 + kNumberBytes;
  if (bytes.size() < kHeadBytes || bytes.front() != kTag ||
      (bytes.size() - kHeadBytes) % kRangeBytes != 0 ||
      (bytes.size() - kHeadBytes) / kRangeBytes > kMaxCutRanges) {
    return Status::Corruption("a cut of " + Text(bytes.size()) + " bytes");
  }
  Cut cut;
  cut.at = Get(bytes.subspan(1));
  for (bytes = bytes.subspan(kHeadBytes); !bytes.empty(); bytes = bytes.subspan(kRangeBytes)) {
    cut.dropped.push_back({Get(bytes), Get(bytes.subspan(kNumberBytes))});
  }
  const std::string fault = Fault(cut);
  if (!fault.empty()) return Status::Corruption("a cut that " + fault);
  return cut;
}

Status CheckCuts(std::span<const Cut> cuts, uint64_t num_tokens) {
  if (cuts.size() > kMaxCuts) {
    return Status::InvalidArgument(Text(cuts.size()) + " cuts, expected at most " + Text(kMaxCuts));
  }
  std::vector<TokenRange> dropped;
  for (size_t i = 0; i < cuts.size(); ++i) {
    std::string fault = Fault(cuts[i]);
    if (fault.empty() && cuts[i].at > num_tokens) {
      fault = "is at " + Text(cuts[i].at) + " of " + Text(num_tokens) + " tokens";
    }
    if (fault.empty() && i > 0 && cuts[i].at <= cuts[i - 1].at) {
      fault = "is at " + Text(cuts[i].at) + ", after one at " + Text(cuts[i - 1].at);
    }
    if (!fault.empty()) return Status::InvalidArgument("cut " + Text(i) + " " + fault);
    dropped.insert(dropped.end(), cuts[i].dropped.begin(), cuts[i].dropped.end());
  }
  return CheckDropped(std::move(dropped));
}

std::vector<Cut> CutsWithin(std::vector<Cut> cuts, uint64_t num_tokens) {
  std::erase_if(cuts, [num_tokens](const Cut& cut) { return cut.at > num_tokens; });
  return cuts;
}

}  // namespace attndb::store
