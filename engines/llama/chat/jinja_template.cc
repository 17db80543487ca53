#include "engines/llama/chat/jinja_template.h"

#include <llama-common/chat.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "engines/llama/chat/chat_clock.h"
#include "engines/llama/utf8_bytes.h"

namespace attndb::llama {
namespace {

std::string DateText(int64_t now, const char* format) {
  const auto seconds = static_cast<std::time_t>(now);
  std::tm local = {};
  localtime_r(&seconds, &local);
  std::array<char, 64> text = {};
  std::strftime(text.data(), text.size(), format, &local);
  return "\"" + std::string(text.data()) + "\"";
}

common_chat_tool_choice ChoiceOf(ToolChoice choice) {
  switch (choice) {
    case ToolChoice::kAuto:
      return COMMON_CHAT_TOOL_CHOICE_AUTO;
    case ToolChoice::kNone:
      return COMMON_CHAT_TOOL_CHOICE_NONE;
    case ToolChoice::kRequired:
      return COMMON_CHAT_TOOL_CHOICE_REQUIRED;
  }
  throw std::invalid_argument("unknown tool choice");
}

// The template's variables. A client's own go before llama.cpp's.
std::map<std::string, std::string> VariablesOf(const ChatOptions& options) {
  std::map<std::string, std::string> variables = options.variables;
  // Without these, llama.cpp gives a template the machine's own date.
  variables.emplace("date_string", DateText(options.now, "%d %b %Y"));
  variables.emplace("datetime", DateText(options.now, "%b %d %Y"));
  variables.emplace("preserve_reasoning", "true");  // llama.cpp's own server does so.
  return variables;
}

std::optional<bool> ThinkingOf(const ChatOptions& options) {
  const auto named = options.variables.find("enable_thinking");
  if (named != options.variables.end() && named->second.starts_with('"')) {
    throw std::invalid_argument("\"enable_thinking\" is a text, expected true or false");
  }
  if (options.enable_thinking || named == options.variables.end()) return options.enable_thinking;
  if (named->second == "true") return true;
  if (named->second == "false") return false;
  return std::nullopt;
}

ChatPlan PlanOf(common_chat_params params) {
  ChatPlan plan = {.prompt = std::move(params.prompt), .form = {}};
  ReplyForm& form = plan.form;
  form.parser = std::move(params.parser);
  form.format = static_cast<int>(params.format);
  form.generation_prompt = std::move(params.generation_prompt);
  form.grammar = std::move(params.grammar);
  form.is_lazy = params.grammar_lazy;
  for (common_grammar_trigger& trigger : params.grammar_triggers) {
    form.triggers.push_back({.is_pattern = trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN,
                             .text = std::move(trigger.value)});
  }
  form.shown_tokens = std::move(params.preserved_tokens);
  form.stop = std::move(params.additional_stops);
  form.can_think = params.supports_thinking;
  form.thinking_start = std::move(params.thinking_start_tag);
  form.thinking_ends = std::move(params.thinking_end_tags);
  return plan;
}

// llama.cpp's words may hold all that a client sent.
Status Refused(std::string_view words) {
  constexpr size_t kMost = 2000;
  return Status::InvalidArgument("the chat template can't be applied: " +
                                 std::string(FirstUtf8Bytes(words, kMost)));
}

}  // namespace

class JinjaTemplate::Parsed {
 public:
  // Throws what llama.cpp throws.
  explicit Parsed(const TemplateText& text) : plain_(TemplatesOf(text, text.source)) {
    if (!text.tool_source.empty()) with_tools_ = TemplatesOf(text, text.tool_source);
  }

  // These throw what llama.cpp and the template throw.
  common_chat_templates_inputs InputsOf(const ChatInput& input) {
    const ChatOptions& options = input.options;
    common_chat_templates_inputs inputs;
    inputs.messages = common_chat_msgs_parse_oaicompat(common_json::parse(input.messages));
    if (!options.tools.empty()) {
      inputs.tools = common_chat_tools_parse_oaicompat(common_json::parse(options.tools));
    }
    inputs.tool_choice = ChoiceOf(options.tool_choice);
    inputs.json_schema = options.json_schema;
    inputs.parallel_tool_calls =
        options.parallel_tool_calls.value_or(Caps()["supports_parallel_tool_calls"]);
    inputs.add_generation_prompt = input.add_generation_prompt && !options.continues_last;
    if (options.continues_last) {
      inputs.continue_final_message = COMMON_CHAT_CONTINUATION_AUTO;
    }
    inputs.reasoning_format = common_reasoning_format_from_name(options.reasoning_format);
    inputs.chat_template_kwargs = VariablesOf(options);
    const std::optional<bool> thinks = ThinkingOf(options);
    inputs.enable_thinking = thinks ? *thinks : ThinksByDefault();
    return inputs;
  }

  ChatPlan Apply(const common_chat_templates_inputs& inputs) {
    ChatPlan plan = PlanOf(common_chat_templates_apply(For(inputs), inputs));
    if (IsPlain(plan.form)) plan.form.parser.clear();
    return plan;
  }

  // The prompt shows all tools. Replies call the one that is named, if one is.
  ChatPlan ApplyBound(const common_chat_templates_inputs& inputs, const std::string& tool_name) {
    ChatPlan plan = Apply(inputs);
    if (tool_name.empty()) return plan;
    common_chat_templates_inputs only = inputs;
    std::erase_if(only.tools, [&](const auto& tool) { return tool.name != tool_name; });
    if (only.tools.empty()) throw std::invalid_argument("no tool is named '" + tool_name + "'");
    plan.form = Apply(only).form;
    return plan;
  }

  // A prompt without a way to read replies.
  ChatPlan ApplyPlain(common_chat_templates_inputs inputs) {
    std::string prefill;
    // In this way llama.cpp leaves out the message that a reply goes on with.
    if (inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE &&
        !inputs.messages.empty()) {
      prefill = inputs.messages.back().render_content();
      inputs.messages.pop_back();
      inputs.continue_final_message = COMMON_CHAT_CONTINUATION_NONE;
      inputs.add_generation_prompt = true;
    }
    inputs.force_pure_content = true;
    ChatPlan plan = PlanOf(common_chat_templates_apply(For(inputs), inputs));
    plan.prompt += prefill;
    std::string end = std::move(plan.form.generation_prompt) + prefill;
    plan.form = ReplyForm();
    plan.form.generation_prompt = std::move(end);
    return plan;
  }

  std::map<std::string, bool> Caps() const {
    return common_chat_templates_get_caps(with_tools_ ? with_tools_.get() : plain_.get());
  }

 private:
  static common_chat_templates_ptr TemplatesOf(const TemplateText& text,
                                               const std::string& source) {
    // llama.cpp's call drops the words of an error, and these two give them.
    jinja::lexer lexer;
    jinja::parse_from_tokens(lexer.tokenize(source));
    return common_chat_templates_init(nullptr, source, text.bos, text.eos);
  }

  const common_chat_templates* For(const common_chat_templates_inputs& inputs) const {
    return with_tools_ != nullptr && !inputs.tools.empty() ? with_tools_.get() : plain_.get();
  }

  // Whether the model thinks if nobody says so: if its template knows of thinking at all.
  bool ThinksByDefault() {
    if (!thinks_) {
      try {
        thinks_ = common_chat_templates_support_enable_thinking(plain_.get());
      } catch (const std::exception&) {
        thinks_ = true;  // Nobody can say. llama.cpp gives templates this value.
      }
    }
    return *thinks_;
  }

  // Whether the form says only that all of a reply is content. It is then llama.cpp's form for a
  // template that has nothing but text, but for the prompt's end.
  bool IsPlain(const ReplyForm& form) {
    if (plain_parser_.empty()) {
      common_chat_templates_inputs inputs;
      inputs.messages = common_chat_msgs_parse_oaicompat(
          common_json::parse(R"([{"role":"user","content":"x"}])"));
      const common_chat_templates_ptr bare = common_chat_templates_init(nullptr, "chatml");
      const common_chat_params params = common_chat_templates_apply(bare.get(), inputs);
      plain_parser_ = params.parser;
      plain_end_ = common_json(params.generation_prompt).dump();
    }
    const size_t at = plain_parser_.find(plain_end_);
    if (at == std::string::npos) return false;
    std::string expected = plain_parser_;
    expected.replace(at, plain_end_.size(), common_json(form.generation_prompt).dump());
    return form.format == COMMON_CHAT_FORMAT_PEG_NATIVE && form.grammar.empty() &&
           form.parser == expected;
  }

  common_chat_templates_ptr plain_;
  common_chat_templates_ptr with_tools_;  // Null: `plain_` is for all chats.
  std::optional<bool> thinks_;
  std::string plain_parser_;  // With `plain_end_` as the prompt's end, in JSON.
  std::string plain_end_;
};

JinjaTemplate::JinjaTemplate(std::unique_ptr<Parsed> parsed) : parsed_(std::move(parsed)) {}
JinjaTemplate::JinjaTemplate(JinjaTemplate&&) noexcept = default;
JinjaTemplate& JinjaTemplate::operator=(JinjaTemplate&&) noexcept = default;
JinjaTemplate::~JinjaTemplate() = default;

Result<JinjaTemplate> JinjaTemplate::Parse(const TemplateText& text) {
  if (text.source.empty()) return Status::InvalidArgument("the chat template is empty");
  try {
    return JinjaTemplate(std::make_unique<Parsed>(text));
  } catch (const std::exception& error) {
    return Status::InvalidArgument(std::string("the chat template can't be parsed: ") +
                                   error.what());
  }
}

Result<ChatPlan> JinjaTemplate::Render(const ChatInput& input) const {
  SetChatClock(input.options.now);
  try {
    common_chat_templates_inputs inputs = parsed_->InputsOf(input);
    const bool may_call =
        !inputs.tools.empty() && inputs.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE;
    if (may_call || !inputs.json_schema.empty()) {
      return parsed_->ApplyBound(inputs, may_call ? input.options.tool_name : "");
    }
    try {
      return parsed_->Apply(inputs);
    } catch (const std::exception&) {
      // llama.cpp also learns from the template how to read replies, which fails for some.
      return parsed_->ApplyPlain(inputs);
    }
  } catch (const std::exception& error) {
    return Refused(error.what());
  }
}

std::map<std::string, bool> JinjaTemplate::Caps() const { return parsed_->Caps(); }

Result<std::string> JinjaTemplate::RenderText(const ChatInput& input) const {
  SetChatClock(input.options.now);
  try {
    return parsed_->ApplyPlain(parsed_->InputsOf(input)).prompt;
  } catch (const std::exception& error) {
    return Refused(error.what());
  }
}

}  // namespace attndb::llama
