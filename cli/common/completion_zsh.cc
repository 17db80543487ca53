// ZshCompletion.
#include <string>
#include <string_view>

#include "cli/common/completion.h"

namespace attndb::cli {
namespace {

constexpr std::string_view kZshStart = R"zsh(#compdef PROGRAM
# Completion of PROGRAM's command line for zsh: `PROGRAM completion zsh` writes it.
_PROGRAM_contexts() {
  local -a names store
  local i
  for ((i = 1; i < CURRENT; ++i)); do
    case ${words[i]} in
      (--db|--tenant|--server) store+=("${words[i]}" "${words[i + 1]}") ;;
    esac
  done
  names=(${(f)" $(timeout 2 PROGRAM ls $store 2 > / dev / null |
                                       awk 'NR > 1 { if (NF == 0) exit; print $1 }') "})
                                       compadd -
                                       a names
}

_PROGRAM() {
  local context state state_descr line
  typeset -A opt_args
  local -a commands
)zsh";

constexpr std::string_view kZshEnd = R"zsh(      esac
      ;;
  esac
}

if [[ ${funcstack[1]} == _PROGRAM ]]; then
  _PROGRAM "$@"
else
  compdef _PROGRAM PROGRAM
fi
)zsh";

// In a specification between single quotes, where brackets and colons separate its parts.
std::string ZshText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'') {
      escaped += "'\\''";
      continue;
    }
    if (std::string_view("[]:\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string ZshValue(const std::string& value) {
  switch (KindOf(value)) {
    case ValueKind::kNone:
      return "";
    case ValueKind::kContext:
      return ":" + ZshText(value) + ":_PROGRAM_contexts";
    case ValueKind::kFile:
      return ":" + ZshText(value) + ":_files";
    case ValueKind::kFolder:
      return ":" + ZshText(value) + ":_files -/";
    case ValueKind::kChoice:
      return ":value:(" + ChoicesOf(value) + ")";
    case ValueKind::kOther:
      return ":" + ZshText(value) + ": ";
  }
  return "";
}

std::string ZshFlag(const OptionEntry& option) {
  std::string text;
  for (const std::string& name : option.names) {
    const std::string sign = option.value.empty() ? "" : name.starts_with("--") ? "=" : "+";
    text += " \\\n        '*" + name + sign + "[" + ZshText(option.help) + "]" +
            ZshValue(option.value) + "'";
  }
  return text;
}

std::string ZshArguments(const CommandTree& command) {
  std::string text = "_arguments -S";
  int at = 0;
  for (const OptionEntry& option : command.options) {
    if (!option.names.empty()) {
      text += ZshFlag(option);
      continue;
    }
    text += " \\\n        '" + (option.repeats ? "*" : std::to_string(++at)) +
            ZshValue(option.value) + "'";
  }
  return text;
}

}  // namespace

std::string ZshCompletion(const CommandTree& program) {
  std::string text(kZshStart);
  text += "  commands=(\n    'help:Show the help of a command'\n";
  for (const CommandTree& command : program.commands) {
    text += "    '" + command.name + ":" + ZshText(command.summary) + "'\n";
  }
  text += "  )\n  " + ZshArguments(program) +
          " \\\n        '1:command:->command' '*::argument:->argument'\n"
          "  case $state in\n"
          "    (command) _describe -t commands command commands ;;\n"
          "    (argument)\n"
          "      case ${words[1]} in\n"
          "        (help) _describe -t commands command commands ;;\n";
  for (const CommandTree& command : program.commands) {
    text += "        (" + command.name + ") " + ZshArguments(command) + "\n          ;;\n";
  }
  return WithProgram(text + std::string(kZshEnd), program.name);
}

}  // namespace attndb::cli
