#include "engines/llama/chat/jinja_template.h"

#include <llama-common/chat.h>

#include <array>
#include <ctime>
#include <exception>
#include <utility>

#include "engines/llama/chat/chat_clock.h"

namespace attndb::llama {

struct JinjaTemplate::Parsed {
  common_chat_templates_ptr templates;
};

namespace {

std::string DateText(int64_t now, const char* format) {
  const auto seconds = static_cast<std::time_t>(now);
  std::tm local = {};
  localtime_r(&seconds, &local);
  std::array<char, 64> text = {};
  std::strftime(text.data(), text.size(), format, &local);
  return "\"" + std::string(text.data()) + "\"";
}

common_chat_templates_inputs InputsOf(const ChatInput& input) {
  common_chat_templates_inputs inputs;
  inputs.messages = common_chat_msgs_parse_oaicompat(common_json::parse(input.messages));
  inputs.add_generation_prompt = input.add_generation_prompt;
  inputs.chat_template_kwargs = input.variables;
  // Without these, llama.cpp gives a template the machine's own date.
  inputs.chat_template_kwargs.emplace("date_string", DateText(input.now, "%d %b %Y"));
  inputs.chat_template_kwargs.emplace("datetime", DateText(input.now, "%b %d %Y"));
  return inputs;
}

}  // namespace

JinjaTemplate::JinjaTemplate(std::unique_ptr<Parsed> parsed) : parsed_(std::move(parsed)) {}
JinjaTemplate::JinjaTemplate(JinjaTemplate&&) noexcept = default;
JinjaTemplate& JinjaTemplate::operator=(JinjaTemplate&&) noexcept = default;
JinjaTemplate::~JinjaTemplate() = default;

Result<JinjaTemplate> JinjaTemplate::Parse(const TemplateText& text) {
  if (text.source.empty()) return Status::InvalidArgument("the chat template is empty");
  try {
    // llama.cpp's call drops the words of an error, and these two give them.
    jinja::lexer lexer;
    jinja::parse_from_tokens(lexer.tokenize(text.source));
    auto parsed = std::make_unique<Parsed>();
    parsed->templates = common_chat_templates_init(nullptr, text.source, text.bos, text.eos);
    return JinjaTemplate(std::move(parsed));
  } catch (const std::exception& error) {
    return Status::InvalidArgument(std::string("the chat template can't be parsed: ") +
                                   error.what());
  }
}

Result<std::string> JinjaTemplate::Render(const ChatInput& input) const {
  SetChatClock(input.now);
  try {
    common_chat_templates_inputs inputs = InputsOf(input);
    try {
      return common_chat_templates_apply(parsed_->templates.get(), inputs).prompt;
    } catch (const std::exception&) {
      // llama.cpp also learns from the template how to read replies, which fails for some.
      inputs.force_pure_content = true;
      return common_chat_templates_apply(parsed_->templates.get(), inputs).prompt;
    }
  } catch (const std::exception& error) {
    return Status::InvalidArgument(std::string("the chat template can't be applied: ") +
                                   error.what());
  }
}

}  // namespace attndb::llama
