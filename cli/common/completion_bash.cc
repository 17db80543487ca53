// BashCompletion.
#include <string>
#include <string_view>

#include "cli/common/completion.h"

namespace attndb::cli {
namespace {

// PROGRAM stands for the program's name.
constexpr std::string_view kBashStart =
    R"(# Completion of PROGRAM's command line for bash: `PROGRAM completion bash` writes it.
_PROGRAM_contexts() {  # Flags that name the store.
  timeout 2 PROGRAM ls "$@" 2>/dev/null | awk 'NR > 1 { if (NF == 0) exit; print $1 }'
}
)";

constexpr std::string_view kBashEnd = R"(
_PROGRAM() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' kind='' words='' store=() argument=0 i
  # Readline takes the sign of --flag=value for a word.
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    local word=${COMP_WORDS[i]} value=1
    [[ ${COMP_WORDS[i + 1]} == '=' ]] && value=2
    if [[ $word == -* ]]; then
      _PROGRAM_value "$command" "$word"
      if [[ $word == --db || $word == --tenant || $word == --server ]]; then
        store+=("$word" "${COMP_WORDS[i + value]}")
      fi
      [[ -n $kind ]] && ((i += value))
    elif [[ -z $command ]]; then
      command=$word
    else
      ((++argument))
    fi
  done
  _PROGRAM_value "$command" "$previous"
  if [[ -z $kind && $current == -* ]]; then
    kind=flags
  elif [[ -z $kind && -z $command ]]; then
    kind=commands
  elif [[ -z $kind ]]; then
    _PROGRAM_argument "$command" "$argument"
  fi
  COMPREPLY=()
  case $kind in
    flags) _PROGRAM_flags "$command" ;;
    commands) words=$_PROGRAM_commands ;;
    context) words=$(_PROGRAM_contexts "${store[@]}") ;;
    file) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    folder) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    other | '') ;;
    *) words=$kind ;;
  esac
  if [[ $kind == file || $kind == folder ]]; then
    compopt -o filenames 2>/dev/null
  elif [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}
complete -F _PROGRAM PROGRAM
)";

// The name of a kind of value in the script; a choice is named by its words.
std::string BashKind(const std::string& value) {
  switch (KindOf(value)) {
    case ValueKind::kNone:
      return "";
    case ValueKind::kContext:
      return "context";
    case ValueKind::kFile:
      return "file";
    case ValueKind::kFolder:
      return "folder";
    case ValueKind::kChoice:
      return ChoicesOf(value);
    case ValueKind::kOther:
      return "other";
  }
  return "";
}

std::string BashCase(const std::string& patterns, const std::string& variable,
                     const std::string& value) {
  return "    " + patterns + ") " + variable + "='" + value + "' ;;\n";
}

// Sets `kind` to the kind of a flag's value; empty: no value.
std::string BashValues(const CommandTree& program) {
  std::string text = "_PROGRAM_value() {  # command, flag\n  kind=''\n  case \"$1 $2\" in\n";
  const auto add = [&text](const std::string& command, const OptionEntry& option) {
    std::string patterns;
    for (const std::string& name : option.names) {
      patterns += (patterns.empty() ? "" : " | ") + command + " " + name + "'";
    }
    if (!option.value.empty()) text += BashCase(patterns, "kind", BashKind(option.value));
  };
  for (const OptionEntry& option : program.options) add("*'", option);
  for (const CommandTree& command : program.commands) {
    for (const OptionEntry& option : command.options) {
      if (!option.names.empty() && !IsCommon(program, option)) add("'" + command.name, option);
    }
  }
  return text + "  esac\n}\n";
}

// Sets `kind` to the kind of the command's next argument.
std::string BashArguments(const CommandTree& program) {
  std::string text = "_PROGRAM_argument() {  # command, how many it has\n  case \"$1 $2\" in\n";
  text += BashCase("'help 0'", "kind", "commands");
  for (const CommandTree& command : program.commands) {
    int at = 0;
    for (const OptionEntry& option : command.options) {
      if (!option.names.empty()) continue;
      const std::string pattern = option.repeats
                                      ? "'" + command.name + " '*"
                                      : "'" + command.name + " " + std::to_string(at) + "'";
      text += BashCase(pattern, "kind", BashKind(option.value));
      ++at;
    }
  }
  return text + "  esac\n}\n";
}

std::string BashWords(const CommandTree& command) {
  std::string words;
  for (const OptionEntry& option : command.options) {
    for (const std::string& name : option.names) words += (words.empty() ? "" : " ") + name;
  }
  return words;
}

std::string BashFlags(const CommandTree& program) {
  std::string text = "_PROGRAM_flags() {  # command\n  case $1 in\n";
  text += BashCase("''", "words", BashWords(program));
  for (const CommandTree& command : program.commands) {
    text += BashCase(command.name, "words", BashWords(command));
  }
  return text + "  esac\n}\n";
}

}  // namespace

std::string BashCompletion(const CommandTree& program) {
  std::string commands = "_PROGRAM_commands='help";
  for (const CommandTree& command : program.commands) commands += " " + command.name;
  return WithProgram(std::string(kBashStart) + commands + "'\n" + BashValues(program) +
                         BashArguments(program) + BashFlags(program) + std::string(kBashEnd),
                     program.name);
}

}  // namespace attndb::cli
