#include <string>
#include <vector>

#include "attndb/tiers.h"
#include "cli/commands/commands.h"
#include "cli/common/gb_list.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"

namespace attndb::cli {
namespace {

class SimulateCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    AddModel(flags);
    AddConversations(flags);
    flags->Group("Tiers: each memory with each disk, under each policy");
    flags->Add({"--memory", "GB", "Sizes, as in 64,128 (default: 128)"}, &memory_);
    flags->Add({"--disk", "GB", "Sizes, as in 0,2TB,10TB (default: 10TB)"}, &disk_);
    flags->Add({"--disk-speed", "GB/S", "Read from disk (default: 5)"}, &disk_speed_, 1e-6, 1e6);
    flags->Add(
        {"--policy", "TEXT",
         "none, lru, fifo, attention_store, attndb or belady, with keys as in "
         "\"attndb(bytes=1)\"; may be repeated (default: lru, fifo, attention_store, attndb)"},
        &policies_);
    flags->Add({"--bound", "", "Show beside each what Belady's rule would hit"}, &options_.bound);
    flags->Group("Dollars an hour");
    flags->Add({"--gpu-price", "DOLLARS", "Price of a GPU (default: 5)"}, &options_.gpu_dollars,
               0.0, 1e9);
    flags->Add({"--memory-price", "DOLLARS", "Price of a GB of memory (default: 0.0088)"},
               &options_.memory_gb_dollars, 0.0, 1e9);
    flags->Add({"--disk-price", "DOLLARS", "Price of a GB of disk (default: 0.000082)"},
               &options_.disk_gb_dollars, 0.0, 1e9);
  }

  Result<ExitCode> Run(Environment* env) override {
    if (!memory_.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(options_.memory_bytes, ParseGbList("--memory", memory_));
    }
    if (!disk_.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(options_.disk_bytes, ParseGbList("--disk", disk_));
    }
    if (!policies_.empty()) options_.policies = policies_;
    options_.disk_bytes_per_second = disk_speed_ * 1e9;
    const InterruptScope interrupt;
    ProgressLine line({.label = "simulate", .unit = "turns", .enabled = env->show_progress()});
    options_.progress = ShowUntilInterrupted(&line);
    ATTNDB_ASSIGN_OR_RETURN(const SimulateReport report, Simulate(options_));
    line.Clear();
    if (env->json()) env->PrintJson(ReadJson(report.ToJson()));
    env->Print(report.ToText());
    return ExitCode::kOk;
  }

 private:
  void AddModel(Flags* flags) {
    flags->Group("Model");
    flags->Add({"--model", "NAME",
                "One of AttentionStore's, whose figures those below replace: 13b, 65b, 70b, falcon "
                "(default: 13b)"},
               &options_.model);
    flags->Add({"--kv-bytes", "N", "Bytes of K and V of a token, in all layers"},
               &options_.kv_bytes_per_token, uint64_t{1}, uint64_t{1} << 30);
    flags->Add({"--window", "N", "Tokens of the longest context"}, &options_.window_tokens,
               uint64_t{2}, uint64_t{1'000'000'000});
    flags->Add({"--prefill-speed", "TOKENS/S", "Tokens that are read in a second"},
               &options_.prefill_tokens_per_second, 1e-3, 1e12);
    flags->Add({"--decode-seconds", "S", "GPU time of an answer: its batch's, over the batch"},
               &options_.decode_seconds, 1e-9, 1e6);
    flags->Add({"--gpus", "N", "GPUs that serve the model together"}, &options_.num_gpus, 1U,
               1'000'000U);
  }

  void AddConversations(Flags* flags) {
    flags->Group("Conversations");
    flags->Add({"--trace", "FILE",
                "Turns with their times, a JSON object a line; instead of those "
                "that are made up"},
               &options_.trace);
    flags->Add({"--conversations", "N", "How many are made up (default: 9000)"},
               &options_.num_conversations, uint64_t{1}, uint64_t{10'000'000});
    flags->Add({"--rate", "N", "Conversations that begin in a second (default: 1)"},
               &options_.conversations_per_second, 1e-6, 1e6);
    flags->Add({"--think", "S", "Mean seconds from an answer to the next turn (default: 60)"},
               &options_.think_seconds, 0.0, 1e9);
    flags->Add({"--turn-tokens", "N", "Tokens of a turn, the median (default: 2600)"},
               &options_.turn_tokens, 1.0, 1e7);
    flags->Add({"--prompt-share", "SHARE", "The prompt's share of these (default: 0.06)"},
               &options_.new_token_share, 0.0, 1.0);
    flags->Add({"--seed", "N", "Of the first workload (default: 1)"}, &options_.seed, uint64_t{0},
               uint64_t{1} << 62);
    flags->Add({"--seeds", "N", "Workloads whose results are averaged (default: 1)"},
               &options_.num_seeds, 1U, 1000U);
    flags->Add({"--warm-up", "SHARE", "Turns before counting begins (default: 0.316)"},
               &options_.warm_up_share, 0.0, 0.99);
    flags->Add({"--recompute-overflow", "", "KV that is truncated is computed again, not reused"},
               &options_.recompute_overflow);
  }

  SimulateOptions options_;
  std::string memory_;
  std::string disk_;
  double disk_speed_ = 5;
  std::vector<std::string> policies_;
};

}  // namespace

std::unique_ptr<Command> MakeSimulate() { return std::make_unique<SimulateCommand>(); }

}  // namespace attndb::cli
