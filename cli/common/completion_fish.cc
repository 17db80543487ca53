// FishCompletion.
#include <string>
#include <string_view>

#include "cli/common/completion.h"

namespace attndb::cli {
namespace {

constexpr std::string_view kFishStart =
    R"(# Completion of PROGRAM's command line for fish: `PROGRAM completion fish` writes it.
function __PROGRAM_contexts
    set -l words (commandline -opc)
    set -l store
    for i in (seq (count $words))
        if contains -- $words[$i] --db --tenant --server
            set -a store $words[$i] $words[(math $i + 1)]
        end
    end
    timeout 2 PROGRAM ls $store 2>/dev/null | awk 'NR > 1 { if (NF == 0) exit; print $1 }'
end

complete -c PROGRAM -f
)";

std::string FishText(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

// The completion of a flag's value, or of an argument.
std::string FishValue(const std::string& value, bool is_flag) {
  const std::string exclusive = is_flag ? " -x" : "";
  switch (KindOf(value)) {
    case ValueKind::kNone:
      return "";
    case ValueKind::kContext:
      return exclusive + " -a '(__PROGRAM_contexts)'";
    case ValueKind::kFile:
      return is_flag ? " -r -F" : " -F";
    case ValueKind::kFolder:
      return exclusive + " -a '(__fish_complete_directories)'";
    case ValueKind::kChoice:
      return exclusive + " -a '" + ChoicesOf(value) + "'";
    case ValueKind::kOther:
      return exclusive;
  }
  return "";
}

std::string FishLine(const std::string& condition, const OptionEntry& option) {
  std::string line = "complete -c PROGRAM" + condition;
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  const bool is_flag = !option.names.empty();
  return line + FishValue(option.value, is_flag) + (is_flag ? " -d " + FishText(option.help) : "") +
         "\n";
}

}  // namespace

std::string FishCompletion(const CommandTree& program) {
  std::string text(kFishStart);
  for (const OptionEntry& option : program.options) text += FishLine("", option);
  const std::string first = "complete -c PROGRAM -n __fish_use_subcommand -a ";
  text += first + "help -d 'Show the help of a command'\n";
  std::string names;
  for (const CommandTree& command : program.commands) {
    text += first + command.name + " -d " + FishText(command.summary) + "\n";
    names += (names.empty() ? "" : " ") + command.name;
  }
  text += "complete -c PROGRAM -n '__fish_seen_subcommand_from help' -a '" + names + "'\n";
  for (const CommandTree& command : program.commands) {
    const std::string condition = " -n '__fish_seen_subcommand_from " + command.name + "'";
    for (const OptionEntry& option : command.options) {
      const bool is_guessed = !option.names.empty() || KindOf(option.value) != ValueKind::kOther;
      if (is_guessed && !IsCommon(program, option)) text += FishLine(condition, option);
    }
  }
  return WithProgram(text, program.name);
}

}  // namespace attndb::cli
