#include "engines/llama/thread_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace attndb::llama {
namespace {

constexpr double kWholeCore = 0.9;        // A share of a core that counts as a whole one.
constexpr double kClearlyFaster = 0.95;   // Times the time before: what is less is no chance.
constexpr double kCostFactor = 50;        // A try costs this share of the time, at most.
constexpr double kRestSeconds = 0.1;      // Between tries, however little they cost.
constexpr double kShortPass = 0.05;       // Seconds; one such pass tells little.
constexpr uint64_t kShortPasses = 4;      // So many are a try.
constexpr uint64_t kPatience = 4;         // Passes of other kinds within a try.
constexpr uint64_t kPatienceAtFirst = 1;  // The same before the first pass of the try.
constexpr double kWeightOfLast = 0.25;
constexpr size_t kChangesKept = 16;

}  // namespace

int ThreadChoice::KindOf(uint64_t num_rows) { return static_cast<int>(std::bit_width(num_rows)); }

uint32_t ThreadChoice::Next(uint64_t num_rows) {
  return IsTrial(num_rows) ? trial_->num_threads : chosen_;
}

void ThreadChoice::Took(const PassTime& pass) {
  ++num_passes_;
  now_ += pass.seconds;
  if (IsTrial(pass.num_rows)) return Judge(pass);
  Note(pass);
  if (trial_) ++trial_->num_others;
  if (IsOver()) trial_.reset();
  if (!trial_) MayTry(pass);
}

bool ThreadChoice::IsOver() const {
  if (!trial_) return false;
  return trial_->num_others > (trial_->num_done > 0 ? kPatience : kPatienceAtFirst);
}

void ThreadChoice::Note(const PassTime& pass) {
  const double a_row = pass.seconds / static_cast<double>(pass.num_rows);
  const auto [mean, is_new] = seconds_.try_emplace(KindOf(pass.num_rows), a_row);
  if (!is_new) mean->second += kWeightOfLast * (a_row - mean->second);
}

void ThreadChoice::MayTry(const PassTime& pass) {
  const int kind = KindOf(pass.num_rows);
  if (chosen_ > 1 && pass.worst_share < kWholeCore && now_ >= next_fewer_) {
    const auto given = static_cast<uint32_t>(std::max(pass.cores_given, 1.0));
    trial_ = Trial{.kind = kind, .num_threads = std::clamp(given, 1U, chosen_ - 1)};
  } else if (chosen_ < most_ && now_ >= next_more_) {
    trial_ = Trial{.kind = kind, .num_threads = chosen_ + (most_ - chosen_ + 1) / 2};
  }
}

void ThreadChoice::Judge(const PassTime& pass) {
  const double usual = seconds_.at(trial_->kind);
  const auto num_rows = static_cast<double>(pass.num_rows);
  ++trial_->num_done;
  trial_->num_others = 0;
  trial_->seconds += pass.seconds / num_rows;
  trial_->cost += pass.seconds - usual * num_rows;
  if (trial_->num_done < kShortPasses && pass.seconds < kShortPass) return;
  const double mean = trial_->seconds / static_cast<double>(trial_->num_done);
  const Trial trial = *trial_;
  trial_.reset();
  const bool is_faster = mean < kClearlyFaster * usual;
  // What was found slower of the two rests.
  ((trial.num_threads < chosen_) == is_faster ? next_more_ : next_fewer_) =
      now_ + std::max(kRestSeconds, kCostFactor * std::abs(trial.cost));
  if (!is_faster) return;
  if (changes_.size() == kChangesKept) changes_.erase(changes_.begin());
  changes_.push_back({.pass = num_passes_,
                      .from = chosen_,
                      .to = trial.num_threads,
                      .from_seconds = usual * num_rows,
                      .to_seconds = mean * num_rows});
  chosen_ = trial.num_threads;
  seconds_ = {{trial.kind, mean}};  // Means of other kinds are of the number before.
}

}  // namespace attndb::llama
