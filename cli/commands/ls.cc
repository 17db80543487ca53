#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/context_text.h"
#include "cli/common/context_tree.h"
#include "cli/common/contexts.h"
#include "cli/common/progress.h"
#include "cli/common/shown_contexts.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

std::string TotalsText(const ContextList& list, size_t num_hidden) {
  std::string text = Counted(list.contexts.size(), "context");
  if (num_hidden > 0) text += " and " + Counted(num_hidden, "earlier turn") + " (--all)";
  text += ", " + FormatBytes(list.file_bytes) + " on disk";
  if (list.quota_bytes > 0) text += " of " + FormatBytes(list.quota_bytes);
  return text + "\n";
}

using Order = std::function<void(std::vector<ContextInfo>*)>;

template <typename Key>
Order Rising(Key key) {
  return
      [key](std::vector<ContextInfo>* contexts) { std::ranges::stable_sort(*contexts, {}, key); };
}

Order LargestFirst(uint64_t ContextInfo::*key) {
  return [key](std::vector<ContextInfo>* contexts) {
    std::ranges::stable_sort(*contexts, std::greater(), key);
  };
}

// The order of `--sort BY`.
Result<Order> OrderOf(const std::string& by) {
  if (by == "created") return Rising(&ContextInfo::created_us);
  if (by == "used") return Rising(&ContextInfo::last_access_us);
  if (by == "name") return Rising(NameOf);
  if (by == "tokens") return LargestFirst(&ContextInfo::num_tokens);
  if (by == "own") return LargestFirst(&ContextInfo::own_bytes);
  if (by == "size") return LargestFirst(&ContextInfo::file_bytes);
  return Status::InvalidArgument(
      "--sort: expected created, used, name, tokens, own or size, found '" + by + "'");
}

class LsCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"pattern", "PATTERN", "Those whose name fits alone, as 'book-*'"}, &pattern_);
    flags->Add({"--sort", "BY",
                "created (default, oldest first), used, name; tokens, own or size, largest first"},
               &sort_);
    flags->Add({"--all", "", "Every turn of a conversation, not its newest alone"}, &all_);
    flags->Add({"--tree", "", "Each below what it shares tokens with"}, &tree_);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const Order sort, OrderOf(sort_));
    ATTNDB_ASSIGN_OR_RETURN(const auto contexts, OpenContexts(env, Access::kRead));
    ATTNDB_ASSIGN_OR_RETURN(ContextList list, contexts->List());
    const bool is_empty = list.contexts.empty();
    const std::vector<ContextInfo> every = Matching(list.contexts, pattern_);
    if (!all_) list.contexts = NewestTurns(std::move(list.contexts));
    list.contexts = Matching(std::move(list.contexts), pattern_);
    const size_t num_hidden = every.size() - list.contexts.size();
    sort(&list.contexts);
    if (tree_) ATTNDB_RETURN_IF_ERROR(AddSegments(contexts.get(), &list.contexts));
    const std::vector<ContextNode> tree =
        tree_ ? TreeOfContexts(list.contexts) : std::vector<ContextNode>();
    Json json = Json::object();
    json["contexts"] = Json::array();
    for (const ContextInfo& context : list.contexts) json["contexts"].push_back(ToJson(context));
    if (tree_) json["tree"] = TreeToJson(tree);
    json["file_bytes"] = list.file_bytes;
    json["quota_bytes"] = list.quota_bytes;
    env->PrintJson(json);
    if (is_empty) {
      env->Print("No contexts yet; 'attndb import FILE' makes one.\n");
    } else if (every.empty()) {
      env->Print("No context fits '" + pattern_ + "'.\n");
    } else {
      const std::string table = tree_ ? TreeText(tree, NowUs(), StdoutWidth())
                                      : ContextTable(list.contexts, NowUs(), StdoutWidth());
      env->Print(table + "\n" + TotalsText(list, num_hidden));
    }
    return ExitCode::kOk;
  }

 private:
  // A list has no segments. What was removed meanwhile is no longer listed.
  static Status AddSegments(Contexts* contexts, std::vector<ContextInfo>* list) {
    std::vector<ContextInfo> detailed;
    for (const ContextInfo& context : *list) {
      ATTNDB_ASSIGN_OR_RETURN(std::optional<ContextInfo> found,
                              IfThere(contexts->Describe(NameOf(context))));
      if (found) detailed.push_back(*std::move(found));
    }
    *list = std::move(detailed);
    return Status();
  }

  std::string pattern_;
  std::string sort_ = "created";
  bool tree_ = false;
  bool all_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeLs() { return std::make_unique<LsCommand>(); }

}  // namespace attndb::cli
