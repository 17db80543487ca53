#include "server/batch/pacer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace attndb::server {
namespace {

constexpr uint64_t kPassesBetween = 8;  // Looks at what attention takes.
constexpr double kOff = 0.25;           // A share changes when it is off by so much of it.

}  // namespace

double AttentionShare(double pass_seconds, std::span<const PacedSession> sessions,
                      std::span<const double> attention) {
  double tightest = std::numeric_limits<double>::infinity();
  double outside = pass_seconds;
  double of_others = 0;
  double num_paced = 0;
  for (size_t i = 0; i < sessions.size(); ++i) {
    outside -= attention[i];
    if (sessions[i].tpot_seconds > 0) {
      tightest = std::min(tightest, sessions[i].tpot_seconds);
      ++num_paced;
    } else {
      of_others += attention[i];
    }
  }
  if (num_paced == 0) return 0;
  const double left = tightest - std::max(outside, 0.0) - of_others;
  return std::max(left / num_paced, kLeastShare);
}

std::string PlanFor(double seconds) {
  char text[64];
  std::snprintf(text, sizeof(text), "auto(tpot=%.3f)", 1e3 * seconds);
  return text;
}

double Pacer::AttentionOf(const Session& session) const {
  double micros = 0;
  for (LayerId layer = 0; layer < session.spec().layers.size(); ++layer) {
    const Result<LayerExplain> explain = session.Explain(layer);
    if (!explain.ok()) continue;
    micros += explain->score_us + explain->select_us + explain->attend_us;
  }
  return 1e-6 * micros / num_threads_;
}

void Pacer::Learn(double pass_seconds, std::span<const PacedSession> sessions) {
  const bool is_paced =
      std::ranges::any_of(sessions, [](const PacedSession& of) { return of.tpot_seconds > 0; });
  if (!is_paced || num_passes_++ % kPassesBetween != 0) return;
  std::vector<double> attention;
  for (const PacedSession& of : sessions) attention.push_back(AttentionOf(*of.session));
  const double share = AttentionShare(pass_seconds, sessions, attention);
  for (const PacedSession& of : sessions) {
    if (of.tpot_seconds <= 0 || std::abs(share - *of.share) <= kOff * *of.share) continue;
    if (of.session->SetPlan(PlanFor(share)).ok()) *of.share = share;
  }
}

}  // namespace attndb::server
