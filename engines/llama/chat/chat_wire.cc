#include "engines/llama/chat/chat_wire.h"

#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace attndb::llama {
namespace {

constexpr std::string_view kVariable = "variable.";

std::string IndexedName(std::string_view name, size_t idx) {
  return std::string(name) + "." + std::to_string(idx);
}

void PutFlag(const std::string& name, bool is_set, ChatFields* fields) {
  if (is_set) (*fields)[name] = "";
}

void PutChoice(const std::string& name, std::optional<bool> choice, ChatFields* fields) {
  if (choice) (*fields)[name] = *choice ? "true" : "false";
}

std::optional<bool> ChoiceOf(const ChatFields& fields, const std::string& name) {
  const auto found = fields.find(name);
  if (found == fields.end()) return std::nullopt;
  return found->second == "true";
}

void PutList(std::string_view name, const std::vector<std::string>& values, ChatFields* fields) {
  for (size_t i = 0; i < values.size(); ++i) (*fields)[IndexedName(name, i)] = values[i];
}

std::vector<std::string> ListOf(const ChatFields& fields, std::string_view name) {
  std::vector<std::string> values;
  for (auto at = fields.find(IndexedName(name, 0)); at != fields.end();
       at = fields.find(IndexedName(name, values.size()))) {
    values.push_back(at->second);
  }
  return values;
}

int64_t NumberOf(const ChatFields& fields, const std::string& name) {
  return std::strtoll(FieldOf(fields, name).c_str(), nullptr, 10);
}

}  // namespace

std::string FieldOf(const ChatFields& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

ChatFields TemplateFields(const TemplateText& text) {
  return {{"op", "template"},
          {"source", text.source},
          {"tool_source", text.tool_source},
          {"bos", text.bos},
          {"eos", text.eos}};
}

TemplateText TemplateOf(const ChatFields& fields) {
  return {.source = FieldOf(fields, "source"),
          .bos = FieldOf(fields, "bos"),
          .eos = FieldOf(fields, "eos"),
          .tool_source = FieldOf(fields, "tool_source")};
}

ChatFields ChatInputFields(const ChatInput& input) {
  const ChatOptions& options = input.options;
  ChatFields fields = {{"messages", input.messages},
                       {"tools", options.tools},
                       {"tool_choice", std::to_string(static_cast<int>(options.tool_choice))},
                       {"tool_name", options.tool_name},
                       {"json_schema", options.json_schema},
                       {"reasoning_format", options.reasoning_format},
                       {"now", std::to_string(options.now)}};
  PutChoice("parallel", options.parallel_tool_calls, &fields);
  PutChoice("thinking", options.enable_thinking, &fields);
  PutFlag("continues", options.continues_last, &fields);
  PutFlag("generation_prompt", input.add_generation_prompt, &fields);
  for (const auto& [name, value] : options.variables) {
    fields[std::string(kVariable) + name] = value;
  }
  return fields;
}

ChatInput ChatInputOf(const ChatFields& fields) {
  ChatInput input;
  input.messages = FieldOf(fields, "messages");
  input.add_generation_prompt = fields.contains("generation_prompt");
  ChatOptions& options = input.options;
  options.tools = FieldOf(fields, "tools");
  options.tool_choice = static_cast<ToolChoice>(NumberOf(fields, "tool_choice"));
  options.tool_name = FieldOf(fields, "tool_name");
  options.parallel_tool_calls = ChoiceOf(fields, "parallel");
  options.json_schema = FieldOf(fields, "json_schema");
  options.reasoning_format = FieldOf(fields, "reasoning_format");
  options.enable_thinking = ChoiceOf(fields, "thinking");
  options.continues_last = fields.contains("continues");
  options.now = NumberOf(fields, "now");
  for (const auto& [name, value] : fields) {
    if (name.starts_with(kVariable)) options.variables[name.substr(kVariable.size())] = value;
  }
  return input;
}

void PutTriggers(const std::vector<GrammarTrigger>& triggers, ChatFields* fields) {
  for (size_t i = 0; i < triggers.size(); ++i) {
    (*fields)[IndexedName("trigger", i)] = triggers[i].text;
    PutFlag(IndexedName("pattern", i), triggers[i].is_pattern, fields);
  }
}

std::vector<GrammarTrigger> TriggersOf(const ChatFields& fields) {
  std::vector<GrammarTrigger> triggers;
  for (std::string& text : ListOf(fields, "trigger")) {
    const bool is_pattern = fields.contains(IndexedName("pattern", triggers.size()));
    triggers.push_back({.is_pattern = is_pattern, .text = std::move(text)});
  }
  return triggers;
}

ChatFields CapsFields(const std::map<std::string, bool>& caps) {
  ChatFields fields;
  for (const auto& [name, is_there] : caps) PutChoice(name, is_there, &fields);
  return fields;
}

std::map<std::string, bool> CapsOf(const ChatFields& fields) {
  std::map<std::string, bool> caps;
  for (const auto& [name, value] : fields) caps[name] = value == "true";
  return caps;
}

ChatFields PlanFields(const ChatPlan& plan) {
  const ReplyForm& form = plan.form;
  ChatFields fields = {{"prompt", plan.prompt},
                       {"parser", form.parser},
                       {"format", std::to_string(form.format)},
                       {"generation_prompt", form.generation_prompt},
                       {"grammar", form.grammar},
                       {"thinking_start", form.thinking_start}};
  PutFlag("lazy", form.is_lazy, &fields);
  PutFlag("can_think", form.can_think, &fields);
  PutList("shown", form.shown_tokens, &fields);
  PutList("stop", form.stop, &fields);
  PutList("thinking_end", form.thinking_ends, &fields);
  PutTriggers(form.triggers, &fields);
  return fields;
}

ChatPlan PlanOf(const ChatFields& fields) {
  ChatPlan plan = {.prompt = FieldOf(fields, "prompt"), .form = {}};
  ReplyForm& form = plan.form;
  form.parser = FieldOf(fields, "parser");
  form.format = static_cast<int>(NumberOf(fields, "format"));
  form.generation_prompt = FieldOf(fields, "generation_prompt");
  form.grammar = FieldOf(fields, "grammar");
  form.is_lazy = fields.contains("lazy");
  form.can_think = fields.contains("can_think");
  form.thinking_start = FieldOf(fields, "thinking_start");
  form.shown_tokens = ListOf(fields, "shown");
  form.stop = ListOf(fields, "stop");
  form.thinking_ends = ListOf(fields, "thinking_end");
  form.triggers = TriggersOf(fields);
  return plan;
}

ChatFields ReplyFields(const ReadReply& reply) {
  ChatFields fields = {{"content", reply.content}, {"reasoning", reply.reasoning}};
  for (size_t i = 0; i < reply.calls.size(); ++i) {
    fields[IndexedName("id", i)] = reply.calls[i].id;
    fields[IndexedName("name", i)] = reply.calls[i].name;
    fields[IndexedName("arguments", i)] = reply.calls[i].arguments;
  }
  return fields;
}

ReadReply ReplyOf(const ChatFields& fields) {
  ReadReply reply = {.content = FieldOf(fields, "content"),
                     .reasoning = FieldOf(fields, "reasoning"),
                     .calls = {}};
  for (std::string& name : ListOf(fields, "name")) {
    const size_t idx = reply.calls.size();
    reply.calls.push_back({.id = FieldOf(fields, IndexedName("id", idx)),
                           .name = std::move(name),
                           .arguments = FieldOf(fields, IndexedName("arguments", idx))});
  }
  return reply;
}

}  // namespace attndb::llama
