#include "cli/common/upkeep_report.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cli/common/units.h"

namespace attndb::cli {
namespace {

Json VerifyJson(const VerifyReport& report) {
  Json damages = Json::array();
  for (const Damage& damage : report.damages) {
    damages.push_back(JsonObject({{"segment_id", damage.segment_id},
                                  {"file", damage.file},
                                  {"message", damage.message},
                                  {"contexts", damage.contexts}}));
  }
  return JsonObject({{"ok", report.ok()},
                     {"num_segments", report.num_segments},
                     {"num_bytes", report.num_bytes},
                     {"damages", damages}});
}

std::string DamageText(const Damage& damage) {
  std::string text = "DAMAGED " + damage.file + ": " + damage.message + "\n";
  for (const std::string& context : damage.contexts) text += "  not served: " + context + "\n";
  return text;
}

}  // namespace

ExitCode ReportVerified(Environment* env, const VerifyReport& report, double seconds) {
  env->PrintJson(VerifyJson(report));
  for (const Damage& damage : report.damages) env->Print(DamageText(damage));
  env->Print((report.ok() ? "ok: " : FormatCount(report.damages.size()) + " damaged: ") +
             Counted(report.num_segments, "segment") + ", " + FormatBytes(report.num_bytes) +
             " checked in " + FormatSeconds(seconds) + "\n");
  if (report.ok()) return ExitCode::kOk;
  if (env->show_progress()) {
    env->Note("damaged contexts are not served, the others are; 'attndb import' them again");
  }
  return ExitCode::kDamage;
}

ExitCode ReportCompacted(Environment* env, const StoreSize& before, const StoreSize& after,
                         double seconds) {
  env->PrintJson({{"num_contexts_before", before.num_contexts},
                  {"num_contexts", after.num_contexts},
                  {"num_segments_before", before.num_segments},
                  {"num_segments", after.num_segments},
                  {"file_bytes_before", before.file_bytes},
                  {"file_bytes", after.file_bytes},
                  {"seconds", seconds}});
  const uint64_t freed = before.file_bytes - std::min(before.file_bytes, after.file_bytes);
  env->Print("segments " + FormatCount(before.num_segments) + " -> " +
             FormatCount(after.num_segments) + ", contexts " + FormatCount(before.num_contexts) +
             " -> " + FormatCount(after.num_contexts) + ", freed " + FormatBytes(freed) + " in " +
             FormatSeconds(seconds) + "\n");
  return ExitCode::kOk;
}

ExitCode ReportBuilt(Environment* env, const BuildReport& report) {
  env->PrintJson({{"kind", report.kind},
                  {"num_built", report.num_built},
                  {"num_present", report.num_present},
                  {"num_too_short", report.num_too_short},
                  {"num_missing", report.num_missing},
                  {"file_bytes", report.file_bytes},
                  {"seconds", report.seconds}});
  env->Print(report.kind + ": built for " + Counted(report.num_built, "segment") + ", " +
             FormatCount(report.num_present) + " had it, " + FormatBytes(report.file_bytes) +
             " in all, in " + FormatSeconds(report.seconds) + "\n");
  if (report.num_too_short > 0) {
    env->Note("too short for one: " + Counted(report.num_too_short, "segment") +
              "; 'attndb compact' merges such");
  }
  if (report.num_missing > 0) {
    env->Note("without one: " + Counted(report.num_missing, "segment") + "; see 'attndb describe'");
  }
  return ExitCode::kOk;
}

ExitCode ReportQuota(Environment* env, uint64_t quota_bytes, uint64_t file_bytes) {
  env->PrintJson({{"quota_bytes", quota_bytes}, {"file_bytes", file_bytes}});
  env->Print((quota_bytes == 0 ? "no limit" : "at most " + FormatBytes(quota_bytes)) + "; " +
             FormatBytes(file_bytes) + " in use\n");
  return ExitCode::kOk;
}

ExitCode ReportNewQuota(Environment* env, uint64_t quota_bytes, uint64_t file_bytes) {
  if (quota_bytes != 0 && file_bytes > quota_bytes) {
    env->Note("the next import evicts what was used longest ago to get below the limit");
  }
  return ReportQuota(env, quota_bytes, file_bytes);
}

}  // namespace attndb::cli
