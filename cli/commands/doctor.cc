#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/version.h"
#include "cli/commands/commands.h"
#include "cli/common/engine_report.h"
#include "cli/common/machine.h"
#include "cli/common/other_program.h"
#include "cli/common/table.h"
#include "cli/common/units.h"
#include "cli/common/variables.h"
#include "engines/llama/chat/chat_renderer.h"

namespace attndb::cli {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kDiskTestBytes = 256ULL << 20;

// The findings of doctor, as JSON and as text at the same time.
class Report {
 public:
  void Section(const std::string& title) {
    if (!pairs_.empty()) Flush();
    title_ = title;
  }
  void Add(const std::string& label, const std::string& text) { pairs_.emplace_back(label, text); }
  void Warn(const std::string& warning) { warnings_.push_back(warning); }

  std::string Text() {
    Flush();
    for (const std::string& warning : warnings_) text_ += "WARNING  " + warning + "\n";
    if (warnings_.empty()) text_ += "No trouble found.\n";
    return text_;
  }
  const std::vector<std::string>& warnings() const { return warnings_; }
  Json json = Json::object();

 private:
  void Flush() {
    text_ += title_ + "\n" + PairsText(pairs_, "  ") + "\n";
    pairs_.clear();
  }

  std::string title_;
  Pairs pairs_;
  std::string text_;
  std::vector<std::string> warnings_;
};

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// "AVX2, FMA" as a list, the form that the engine's sets have.
Json SplitSets(std::string text) {
  Json sets = Json::array();
  while (!text.empty()) {
    const size_t end = std::min(text.find(", "), text.size());
    sets.push_back(text.substr(0, end));
    text.erase(0, end + 2);
  }
  return sets;
}

void ReportMachine(bool fast, Report* report) {
  const CpuInfo cpu = ReadCpuInfo();
  const MemoryInfo memory = ReadMemoryInfo();
  report->Section("machine");
  report->Add("cpu", cpu.model + ", " + std::to_string(cpu.num_cores) +
                         (cpu.num_cores == 1 ? " core" : " cores") + " for this process");
  const std::string sets = KernelInstructionSets();
  report->Add("kernels", KernelIsa() + (sets.empty() ? "" : ": " + sets));
  report->Add("last-level cache", FormatBytes(cpu.last_cache_bytes));
  report->Add("memory",
              FormatBytes(memory.available_bytes) + " free of " + FormatBytes(memory.total_bytes));
  report->json["machine"] = {{"cpu", cpu.model},
                             {"num_cores", cpu.num_cores},
                             {"isa", KernelIsa()},
                             {"cpu_isa", CpuIsa()},
                             {"instruction_sets", SplitSets(sets)},
                             {"last_cache_bytes", cpu.last_cache_bytes},
                             {"memory_total_bytes", memory.total_bytes},
                             {"memory_available_bytes", memory.available_bytes}};
  const std::string slow = SlowKernelsText(KernelIsa(), CpuIsa(), EnvironmentText("ATTNDB_ISA"));
  if (!slow.empty()) report->Warn(slow);
  if (memory.available_bytes < kGiB) report->Warn("less than 1 GiB of memory is free");
  if (fast) return;
  const uint64_t buffer_bytes = BandwidthBufferBytes(cpu, memory);
  const double one = MeasureReadBandwidth(1, buffer_bytes);
  const double all = MeasureReadBandwidth(cpu.num_cores, buffer_bytes);
  report->Add("memory read", FormatFixed(one / 1e9, 1) + " GB/s by one core, " +
                                 FormatFixed(all / 1e9, 1) + " GB/s by all");
  report->json["machine"]["read_bandwidth_one_core"] = one;
  report->json["machine"]["read_bandwidth_all_cores"] = all;
}

void ReportDisk(const std::string& folder, bool fast, Report* report) {
  const Result<DiskInfo> disk = ReadDiskInfo(folder);
  if (!disk.ok()) return report->Warn(disk.status().message());
  report->Add("disk", disk->filesystem + ", " + FormatBytes(disk->free_bytes) + " free of " +
                          FormatBytes(disk->total_bytes));
  Json& json = report->json["store"];
  json["filesystem"] = disk->filesystem;
  json["free_bytes"] = disk->free_bytes;
  json["total_bytes"] = disk->total_bytes;
  json["writable"] = disk->writable;
  if (!disk->writable) report->Warn("'" + folder + "' can't be written to by this user");
  if (disk->free_bytes < kGiB) report->Warn("less than 1 GiB is free on the store's disk");
  if (disk->filesystem == "tmpfs") report->Warn("the store lies in memory: it goes at shutdown");
  if (disk->filesystem == "nfs" || disk->filesystem == "cifs") {
    report->Warn("the store lies on a network file system: locks and fsync may not hold there");
  }
  if (fast || !disk->writable) return;
  const uint64_t test_bytes = std::min(kDiskTestBytes, disk->free_bytes / 4);
  const Result<DiskSpeed> speed = MeasureDisk(folder, test_bytes);
  if (!speed.ok()) return report->Warn(speed.status().message());
  report->Add("fsync", FormatSeconds(speed->fsync_seconds) + " for 4 KiB (median)");
  report->Add("sequential read", FormatFixed(speed->read_bytes_per_second / 1e9, 2) + " GB/s" +
                                     (speed->direct ? "" : " (through the page cache)"));
  json["fsync_seconds"] = speed->fsync_seconds;
  json["read_bytes_per_second"] = speed->read_bytes_per_second;
  json["read_is_direct"] = speed->direct;
  if (speed->fsync_seconds > 0.1) report->Warn("fsync takes long: imports will feel it");
}

// The prices of plans, measured unless `fast`.
void ReportPrices(const DB& db, bool fast, Report* report) {
  const Result<MachineProfile> machine = db.Machine(/*measure=*/!fast);
  if (!machine.ok()) return report->Warn(machine.status().message());
  report->json["machine"]["plan_prices"] = ReadOwnJson(machine->ToJson());
  if (!machine->measured) {
    report->Add("plan prices", "fixed: this machine was not measured yet");
    return;
  }
  // The times of a group of 4 q heads.
  report->Add("plan prices", "a token of 128 + 128 channels, group of 4: full " +
                                 FormatFixed(machine->attend_ns[2], 1) + " ns, scan of 4 bits " +
                                 FormatFixed(machine->scan4_ns[2], 1) + ", of 8 bits " +
                                 FormatFixed(machine->scan8_ns[2], 1) + ", choosing " +
                                 FormatFixed(machine->select_ns, 1) + "; a row here and there " +
                                 FormatFixed(machine->row_ns, 1));
}

void ReportStore(Environment* env, bool fast, Report* report) {
  const std::string path = env->db_path();
  const std::string folder = NearestFolder(path);
  report->Section("store");
  report->json["store"] = {{"path", path}};
  const Result<DB> db = env->OpenForReading();
  std::string state = "not made yet; the first import makes it";
  if (db.ok()) {
    const Result<DBStats> stats = db->Stats();
    if (stats.ok()) {
      ReportPrices(*db, fast, report);
      state = Counted(stats->num_contexts, "context") + ", " + FormatBytes(stats->file_bytes);
      report->json["store"]["num_contexts"] = stats->num_contexts;
      report->json["store"]["num_damaged_segments"] = stats->num_damaged_segments;
      if (stats->num_damaged_segments > 0) {
        report->Warn("the store has damaged segments: 'attndb verify' lists them");
      }
    }
  } else if (db.status().code() != StatusCode::kNotFound) {
    state = "can't be opened";
    report->Warn("the store: " + db.status().message());
  }
  report->json["store"]["state"] = state;
  report->Add("path", path);
  report->Add("holds", state);
  ReportDisk(folder, fast, report);
}

void ReportForward(const EngineReport& engine, Report* report) {
  Json& json = report->json["engine"];
  json["instruction_sets"] = engine.instruction_sets;
  json["forward"] = nullptr;
  if (!engine.instruction_sets.empty()) {
    report->Add("instruction sets", Join(engine.instruction_sets));
  }
  if (!engine.forward) return;
  const ForwardReport& forward = *engine.forward;
  json["forward"] = {{"ok", forward.ok},
                     {"signal", forward.signal.empty() ? Json() : Json(forward.signal)},
                     {"problem", forward.problem},
                     {"advice", forward.advice},
                     {"seconds", forward.seconds}};
  report->Add("forward",
              forward.ok ? "of a tiny quantized model: right, in " + FormatSeconds(forward.seconds)
                         : "FAILED: " + forward.problem);
}

std::string TemplateText(const std::string& chat_template) {
  if (chat_template == "none") return ", no chat template";
  if (chat_template == "unknown") return ", a chat template that can't be applied: --raw";
  return "";
}

void ReportEngine(const EngineReport& engine, Report* report) {
  report->Section("engine");
  report->json["engine"] = {{"name", engine.name}, {"system", engine.system}};
  report->Add(engine.name, engine.system);
  ReportForward(engine, report);
  if (!engine.models.empty()) {
    report->Add("chat templates",
                engine.chat_program.empty()
                    ? "llama.cpp's forms of those that it knows, without a default system message"
                    : "the model file's own, in Jinja; --chat-template FILE replaces it");
  }
  Json models = Json::array();
  for (const FoundModel& model : engine.models) {
    report->Add(model.name, model.path + ", " + FormatBytes(model.file_bytes) +
                                TemplateText(model.chat_template));
    models.push_back({{"name", model.name},
                      {"path", model.path},
                      {"file_bytes", model.file_bytes},
                      {"chat_template", model.chat_template}});
  }
  report->json["engine"]["models"] = std::move(models);
  for (const std::string& problem : engine.problems) report->Warn(problem);
}

// Lists the programs that attndb starts. A build may lack them.
void ReportPrograms(const EngineReport& engine, Report* report) {
  report->Section("programs");
  Json json = Json::object();
  const auto add = [&](const char* name, const std::string& path) {
    json[name] = path.empty() ? Json() : Json(path);
    report->Add(name, path.empty() ? "not built, or it can't be run" : path);
  };
  for (const char* name : {kServerProgram, kSimulateProgram}) {
    add(name, ProgramBeside(name).value_or(""));
  }
  add(llama::kChatProgram, engine.chat_program);
  report->json["programs"] = std::move(json);
}

void ReportEnvironment(Report* report) {
  report->Section("environment");
  Json json = Json::object();
  for (const Variable& variable : Variables()) {
    const char* value = std::getenv(variable.name);
    if (value != nullptr && variable.is_secret) value = "(set)";
    json[variable.name] = value == nullptr ? Json() : Json(value);
    report->Add(variable.name, (value == nullptr ? "(not set)" : std::string("= ") + value) + ": " +
                                   variable.meaning);
  }
  report->json["environment"] = std::move(json);
  const std::vector<std::string> faults = VariableFaults();
  for (const std::string& fault : faults) report->Warn(fault);
  const std::string isa = EnvironmentText("ATTNDB_ISA");
  if (faults.empty() && !isa.empty() && isa != KernelIsa()) {
    report->Warn("ATTNDB_ISA asks for " + isa +
                 ", which this CPU or this build lacks: " + std::string(KernelIsa()) + " runs");
  }
}

class DoctorCommand : public Command {
 public:
  bool bears_faults() const override { return true; }
  void AddFlags(Flags* flags) override {
    flags->Add({"--fast", "", "Measure nothing: no load on memory and disk; the forward is tried"},
               &fast_);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_RETURN_IF_ERROR(env->UseStore());
    Report report;
    report.json["version"] = Version();
    // First of all: it forks, and later there are threads.
    const EngineReport engine = FindEngine();
    ReportMachine(fast_, &report);
    ReportStore(env, fast_, &report);
    ReportEngine(engine, &report);
    ReportPrograms(engine, &report);
    ReportEnvironment(&report);
    env->Print(std::string("attndb ") + Version() + "\n\n" + report.Text());
    report.json["warnings"] = report.warnings();
    env->PrintJson(report.json);
    return engine.forward && !engine.forward->ok ? ExitCode::kError : ExitCode::kOk;
  }

 private:
  bool fast_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDoctor() { return std::make_unique<DoctorCommand>(); }

}  // namespace attndb::cli
