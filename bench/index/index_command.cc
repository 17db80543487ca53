#include <memory>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "bench/bench_progress.h"
#include "bench/commands.h"
#include "bench/heads/vector_flags.h"
#include "bench/index/index_bench.h"
#include "bench/index/index_report.h"
#include "cli/common/interrupt.h"

namespace attndb::bench {
namespace {

class IndexCommand : public cli::Command {
 public:
  void AddFlags(cli::Flags* flags) override {
    flags->Group("What is compared");
    flags->Add({"--plan", "TEXT", "topk with an index; may be repeated (default: a sweep of each)"},
               &options_.plans);
    flags->Add({"--peers", "COMMAND", "Runs COMMAND FOLDER beside (bench/python/index_peers.py)"},
               &options_.peers);
    flags->Add(
        {"--heads", "LIST", "Layer and kv head, as in 3:0,12:1 (default: one of each layer)"},
        &options_.heads);
    flags->Add({"-k", "N", "Keys to be found (default: 100)"}, &options_.k, 1U, 65536U);
    flags->Add({"--find", "QUERY",
                "What is to be found, as in dipr(alpha=0.012): recall is of its softmax mass"},
               &options_.find);
    flags->Add({"--prefix", "N", "Sessions reuse the first N tokens (default: all)"},
               &options_.prefix_tokens, uint64_t{1}, uint64_t{1} << 40);
    vectors_.AddTo(flags);
    flags->Group("How it is measured");
    flags->Add({"--num-queries", "N", "Groups of queries (default: 64)"}, &options_.num_queries, 1U,
               65536U);
    flags->Add({"--rounds", "N", "Times that each is searched for (default: 5)"},
               &options_.num_rounds, 1U, 10000U);
    flags->Add({"--query-sample", "RATE", "Training queries per key (default: 0.4)"},
               &options_.query_sample, 0.0, 16.0);
    flags->Add({"--segment-tokens", "N", "Length of segments, at most; from 4096 (default: 65536)"},
               &options_.segment_tokens, uint64_t{1}, CompactOptions::kMaxSegmentTokens);
    flags->Add({"--temp-dir", "PATH", "Folder of the temporary stores ($TMPDIR)"},
               &options_.temp_dir);
  }

  Result<cli::ExitCode> Run(cli::Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<HeadSource> source, vectors_.Open());
    const cli::InterruptScope interrupt;
    options_.progress = ShowProgress(*env, [](const std::string&) { return "plans"; });
    const Result<std::vector<IndexHeadResult>> heads = RunIndexBench(source.get(), options_);
    options_.progress = nullptr;
    ATTNDB_RETURN_IF_ERROR(heads.status());
    env->PrintJson(IndexBenchJson(source->info(), options_, *heads));
    env->Print(IndexBenchText(source->info(), options_, *heads));
    return cli::ExitCode::kOk;
  }

 private:
  VectorFlags vectors_;
  IndexBenchOptions options_;
};

}  // namespace

std::unique_ptr<cli::Command> MakeIndexBench() { return std::make_unique<IndexCommand>(); }

}  // namespace attndb::bench
