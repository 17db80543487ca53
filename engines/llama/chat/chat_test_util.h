// Templates for tests, and chats for them.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_TEST_UTIL_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_TEST_UTIL_H_

#include <string>

namespace attndb::llama {

// Knows tools; calls are <tool_call>{...}</tool_call>.
inline constexpr char kToolTemplate[] = R"({%- if tools -%}
<|im_start|>system
Tools:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
Call one so: <tool_call>
{"name": "...", "arguments": {...}}
</tool_call><|im_end|>
{% endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% else -%}
<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
)";

// Knows thinking: replies begin with <think>...</think>, and history leaves it out.
inline constexpr char kThinkTemplate[] = R"({%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.role == 'assistant' and loop.last and message.reasoning_content -%}
<think>
{{ message.reasoning_content }}
</think>

{% endif -%}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif -%}
{% endif -%}
)";

// Shows the date in front of each message.
inline constexpr char kDatedTemplate[] = R"({%- for message in messages -%}
<|im_start|>{{ message.role }} {{ strftime_now('%d %B %Y') }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant {{ strftime_now('%d %B %Y') }}
{% endif -%}
)";

// A tool with one parameter, as JSON.
inline std::string ToolJson(const std::string& name, const std::string& parameter) {
  return R"({"type":"function","function":{"name":")" + name +
         R"(","description":"Does it.","parameters":{"type":"object","properties":{")" + parameter +
         R"(":{"type":"string"}},"required":[")" + parameter + R"("]}}})";
}

// An array of two tools: get_weather(city) and add_note(text).
inline std::string TwoTools() {
  return "[" + ToolJson("get_weather", "city") + "," + ToolJson("add_note", "text") + "]";
}

inline std::string UserMessage(const std::string& content) {
  return R"([{"role":"user","content":")" + content + R"("}])";
}

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_TEST_UTIL_H_
