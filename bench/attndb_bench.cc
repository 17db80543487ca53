// attndb-bench: plans and indexes on heads of attention, without an engine. docs/bench.md documents
// its commands and flags.
#include "bench/commands.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  const attndb::cli::CommandEntry commands[] = {
      {"attention", "Error, bytes and time of plans, token after token, beside full",
       "attndb-bench attention --tokens 131072 --dtype bf16 --plan \"auto(error=0.01)\"\n"
       "attndb-bench attention --capture book.safetensors --stretch 131072 --sweep\n"
       "attndb-bench attention --keys k.npy --values v.npy --queries q.npy --plan \"topk(k=512)\"",
       attndb::bench::MakeAttentionBench},
      {"index", "Recall and time of indexes, beside other libraries'",
       "attndb-bench index --geometry 1x3x64 --tokens 8192 --rounds 2\n"
       "attndb-bench index --capture book.safetensors --heads 3:0,12:1 --plan "
       "\"topk(k=100,index=clustered)\"\n"
       "attndb-bench index --capture book.safetensors --peers "
       "\".deps/peers/bin/python bench/python/index_peers.py\"",
       attndb::bench::MakeIndexBench},
  };
  return attndb::cli::RunProgram(
      {.name = "attndb-bench",
       .about = "attndb-bench measures plans and indexes on real or synthetic heads of attention.",
       .examples = "  attndb-bench attention --tokens 4096 --rows 4 --plan \"topk(k=128)\"\n"
                   "  attndb-bench index --geometry 1x3x64 --tokens 8192 --rounds 2\n",
       .has_store = false,
       .commands = commands,
       .moved = {}},
      argc, argv);
}
