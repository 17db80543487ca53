#include "cli/command.h"
#include "cli/commands/commands.h"

namespace attndb::cli {
namespace {

// Commands that make contexts, use them and move them.
std::vector<CommandEntry> ContextCommands() {
  return {
      {"import", "Run a document through the model once and keep its context",
       "attndb import handbook.txt\n"
       "attndb import handbook.txt --name manual --ttl 7d\n"
       "attndb import notes 'papers/*.md' --dry-run\n"
       "attndb import encyclopedia.txt --split\n"
       "cat notes.md | attndb import - --name notes --replace\n"
       "attndb import --safetensors manual.safetensors",
       MakeImport},
      {"append", "Run a text through the model behind a context, which then has it, too",
       "attndb append manual appendix.txt\n"
       "date | attndb append diary -",
       MakeAppend},
      {"export", "Write a context to a file that other stores and programs can read",
       "attndb export manual -o manual.safetensors\n"
       "attndb export '#12' --safetensors twelve.safetensors --json",
       MakeExport},
      {"ask", "Answer a question from a stored context",
       "attndb ask --context manual \"How long is the warranty?\"\n"
       "echo \"Who wrote this?\" | attndb ask --context manual --check\n"
       "attndb ask --context manual \"Sum it up.\" --max-tokens 400 --temp 0.7 --seed 1",
       MakeAsk},
      {"chat", "Talk about a stored context; each turn is kept for a later process",
       "attndb chat --context manual\n"
       "attndb chat --context manual --name friday\n"
       "printf 'What is it?\\nAnd why?\\n' | attndb chat --context manual --quiet",
       MakeChat},
      {"find", "Find the passages of stored contexts that a question's answer stands in",
       "attndb find \"How long is the warranty?\"\n"
       "attndb find --context manual --limit 3 \"Where is the spare key?\"\n"
       "echo \"Who wrote this?\" | attndb find --json",
       MakeFind},
      {"serve", "Serve OpenAI's interface; every conversation is kept and goes on at once",
       "attndb serve\n"
       "attndb serve --model model.gguf --port 9000 --sessions 32\n"
       "attndb serve --host 0.0.0.0 --keys keys.json --tls-cert cert.pem --tls-key key.pem",
       MakeServe},
      {"ls", "List the contexts",
       "attndb ls\n"
       "attndb ls 'book-*' --sort size\n"
       "attndb ls --json | jq -r '.contexts[].name'",
       MakeLs},
      {"describe", "Show all about one context: size, age, segments, damage",
       "attndb describe manual\n"
       "attndb describe '#12' --json",
       MakeDescribe},
      {"explain", "Show how a context would be attended to, or why a prompt would be reused",
       "attndb explain manual --plan \"dipr(alpha=0.012); layers 0: full\"\n"
       "attndb explain --file handbook.txt\n"
       "attndb explain --prompt \"Once upon a time\" --raw",
       MakeExplain},
      {"cat", "Print the text of a context",
       "attndb cat manual\n"
       "attndb cat '#12' --special",
       MakeCat},
      {"mv", "Call a context otherwise",
       "attndb mv manual manual-2024\n"
       "attndb mv '#12' notes/may",
       MakeMv},
      {"rm", "Remove contexts",
       "attndb rm manual\n"
       "attndb rm '#12' 'draft-*'",
       MakeRm},
  };
}

// Commands that look after a store and its machine.
std::vector<CommandEntry> StoreCommands() {
  return {
      {"pin", "Keep a context from eviction and expiry, or release it",
       "attndb pin manual\n"
       "attndb pin manual --off",
       MakePin},
      {"ttl", "Let a context expire when it was not used for a while",
       "attndb ttl manual 7d\n"
       "attndb ttl manual never",
       MakeTtl},
      {"quota", "Show or set the tenant's limit of bytes on disk",
       "attndb quota\n"
       "attndb quota 20GiB\n"
       "attndb quota none",
       MakeQuota},
      {"declare-equal", "Let contexts of one model serve another whose weights are the same",
       "attndb declare-equal 6f1c0a52d8b34e97 hex:9b02c4\n"
       "attndb declare-equal --undo my-finetune my-finetune-gguf",
       MakeDeclareEqual},
      {"verify", "Read and check every stored byte",
       "attndb verify\n"
       "attndb verify manual",
       MakeVerify},
      {"build", "Build an index of a context's keys, and wait for it",
       "attndb build manual --index pq\n"
       "attndb build manual --index pq --m 16 --b 8\n"
       "attndb build '#12' --index graph --json",
       MakeBuild},
      {"compact", "Merge small segments, erase what no context uses, expire contexts",
       "attndb compact\n"
       "attndb compact --segment-tokens 65536",
       MakeCompact},
      {"stats", "Show the store's totals",
       "attndb stats\n"
       "attndb stats --json",
       MakeStats},
      {"doctor", "Show what this machine offers, and what stands in the way",
       "attndb doctor\n"
       "attndb doctor --fast",
       MakeDoctor},
      {"simulate", "Replay conversations through memory and disk: what they would buy",
       "attndb simulate\n"
       "attndb simulate --model 70b --rate 0.5 --memory 64,128,256 --disk 0,2TB,10TB --policy "
       "attndb\n"
       "attndb simulate --trace turns.jsonl --kv-bytes 131072 --window 8192 --bound --json",
       MakeSimulate},
      {"capture", "Write q, k and v of a model's layers to a file, for benchmarks",
       "attndb capture handbook.txt -o handbook.safetensors --layers 0,5-7 --queries 64\n"
       "attndb capture long.txt -o long.safetensors --rope-scaling yarn:4 --tokens 32768\n"
       "attndb capture long.txt -o long.safetensors --plan \"window(sink=16,window=4096)\"",
       MakeCapture},
      {"plot", "Draw what a model attends to, and what plans would lose",
       "attndb plot handbook.safetensors -o pictures\n"
       "attndb plot manual -o pictures --queries 64 --format svg\n"
       "attndb plot handbook.safetensors -o pictures --layer 7 --head 2 --plan \"topk(k=64)\"",
       MakePlot},
      {"completion", "Write a script that completes attndb's command line in a shell",
       "source <(attndb completion bash)\n"
       "attndb completion fish > ~/.config/fish/completions/attndb.fish",
       MakeCompletion},
      {"man", "Write the manual page",
       "attndb man | man -l -\n"
       "attndb man > ~/.local/share/man/man1/attndb.1",
       MakeMan},
  };
}

}  // namespace

const std::vector<CommandEntry>& AllCommands() {
  static const std::vector<CommandEntry> kCommands = [] {
    std::vector<CommandEntry> commands = ContextCommands();
    for (const CommandEntry& entry : StoreCommands()) commands.push_back(entry);
    return commands;
  }();
  return kCommands;
}

}  // namespace attndb::cli
