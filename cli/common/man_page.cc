#include "cli/common/man_page.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "cli/common/completion.h"

namespace attndb::cli {
namespace {

// A line of text as roff takes it: no escape, no dash that becomes another sign, no request.
std::string Roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  const bool is_request = escaped.starts_with('.') || escaped.starts_with('\'');
  return is_request ? "\\&" + escaped : escaped;
}

std::string Bold(const std::string& text) { return "\\fB" + Roff(text) + "\\fR"; }
std::string Italic(const std::string& text) { return "\\fI" + Roff(text) + "\\fR"; }

std::string Paragraph(const std::string& term, const std::string& text) {
  return ".TP\n" + term + "\n" + Roff(text) + "\n";
}

std::string OptionParagraph(const OptionEntry& option) {
  std::string term;
  for (const std::string& name : option.names) term += (term.empty() ? "" : ", ") + Bold(name);
  if (!option.value.empty()) term += (term.empty() ? "" : " ") + Italic(option.value);
  return Paragraph(term, option.help + (option.required ? " (required)" : ""));
}

// The indented lines behind a title in the end of a help, as they are.
std::string Examples(std::string_view footer) {
  constexpr std::string_view kTitle = "Examples:\n";
  const size_t begin = footer.find(kTitle);
  if (begin == std::string_view::npos) return "";
  footer.remove_prefix(begin + kTitle.size());
  std::string lines;
  while (footer.starts_with("  ")) {
    const size_t end = footer.find('\n');
    lines += Roff(footer.substr(2, end == std::string_view::npos ? end : end - 2)) + "\n";
    footer.remove_prefix(end == std::string_view::npos ? footer.size() : end + 1);
  }
  return ".PP\n.nf\n" + lines + ".fi\n";
}

// "attndb export [OPTIONS] CONTEXT".
std::string Usage(const CommandTree& program, const CommandTree& command) {
  std::string text = Bold(program.name + " " + command.name) + " [" + Italic("OPTIONS") + "]";
  for (const OptionEntry& option : command.options) {
    if (!option.names.empty()) continue;
    const std::string name = Italic(option.value) + (option.repeats ? "..." : "");
    text += option.required ? " " + name : " [" + name + "]";
  }
  return text;
}

std::string CommandSection(const CommandTree& program, const CommandTree& command) {
  std::string text = ".SS " + Roff(command.name) + "\n" + Usage(program, command) + "\n.PP\n" +
                     Roff(command.summary) + ".\n";
  for (const OptionEntry& option : command.options) {
    if (!IsCommon(program, option)) text += OptionParagraph(option);
  }
  return text + Examples(command.footer);
}

// "attndb keeps ... once." -> "keeps ... once".
std::string NameLine(const CommandTree& program) {
  std::string about = program.summary;
  if (about.starts_with(program.name + " ")) about.erase(0, program.name.size() + 1);
  if (about.ends_with('.')) about.pop_back();
  return Roff(program.name) + " \\- " + Roff(about) + "\n";
}

std::string Terms(const std::string& title,
                  const std::vector<std::pair<std::string, std::string>>& terms) {
  std::string text = ".SH " + title + "\n";
  for (const auto& [term, meaning] : terms) text += Paragraph(Bold(term), meaning);
  return text;
}

}  // namespace

std::string ManPage(const CommandTree& program, const ManPageFacts& facts) {
  std::string title = program.name;
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string text = ".TH " + Roff(title) + " 1 \"\" \"" +
                     Roff(program.name + " " + facts.version) + "\" \"User Commands\"\n.SH NAME\n" +
                     NameLine(program) + ".SH SYNOPSIS\n" + Bold(program.name) + " " +
                     Italic("COMMAND") + " [" + Italic("OPTIONS") + "]\n.SH OPTIONS\n" +
                     "These stand before or after any command.\n";
  for (const OptionEntry& option : program.options) text += OptionParagraph(option);
  text += ".SH COMMANDS\n";
  for (const CommandTree& command : program.commands) text += CommandSection(program, command);
  text += ".SH EXAMPLES\n" + Examples(program.footer);
  text += Terms("EXIT STATUS", facts.exit_codes);
  text += Terms("ERRORS", facts.advice);
  return text + Terms("ENVIRONMENT", facts.variables);
}

}  // namespace attndb::cli
