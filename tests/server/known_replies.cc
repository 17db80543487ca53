#include "tests/server/known_replies.h"

#include <map>
#include <set>

#include "testing/test_size.h"

namespace attndb::server {

const char kKnownTools[] = R"([
  {"type": "function", "function": {"name": "get_weather", "description": "Tells the weather.",
   "parameters": {"type": "object", "required": ["city"], "properties": {
     "city": {"type": "string"}, "days": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "list_files", "description": "Lists a folder.",
   "parameters": {"type": "object", "required": ["path"], "properties": {
     "path": {"type": "string"},
     "options": {"type": "object", "properties": {"recursive": {"type": "boolean"}}}}}}},
  {"type": "function", "function": {"name": "get_time", "description": "Tells the time.",
   "parameters": {"type": "object", "properties": {}}}},
  {"type": "function", "function": {"name": "run_code", "description": "Runs a program.",
   "parameters": {"type": "object", "required": ["code"], "properties": {
     "code": {"type": "string"}}}}},
  {"type": "function", "function": {"name": "set_values", "description": "Sets what is given.",
   "parameters": {"type": "object", "properties": {
     "ratio": {"type": "number"}, "limit": {"type": "integer"}, "enabled": {"type": "boolean"},
     "label": {"type": "string"}, "items": {"type": "array", "items": {"type": "integer"}}}}}}
])";

namespace {

using Call = std::pair<std::string, Json>;

constexpr size_t kNumAlways = 6;

Call CodeCall(const std::string& code) { return {"run_code", {{"code", code}}}; }

std::vector<KnownReply> AllReplies() {
  const Call weather = {"get_weather",
                        {{"city", "Z\xC3\xBCrich \"north\"\n\xF0\x9F\x98\x80"}, {"days", 3}}};
  const Call kyoto = {"get_weather", {{"city", "\xE4\xBA\xAC\xE9\x83\xBD \xF0\x9F\x9A\x8B"}}};
  const Call files = {"list_files", {{"path", "/tmp/a b"}, {"options", {{"recursive", true}}}}};
  const Call path = {"list_files", {{"path", "C:\\dir"}}};
  const std::string content =
      "It is 21 \xC2\xB0"
      "C there: <warm> & dry.";
  const std::string thought = "I look it up.";
  return {
      {"content", {.content = content}},
      {"call", {.calls = {weather}}},
      {"content and call", {.content = content, .calls = {weather}}},
      {"two calls", {.calls = {weather, files}}},
      {"reasoning and content", {.reasoning = thought, .content = content}},
      {"reasoning and call", {.reasoning = thought, .calls = {files}}},

      {"no arguments", {.calls = {{"get_time", Json::object()}}}},
      {"numbers", {.calls = {{"set_values", {{"ratio", -3.25}, {"limit", -7}}}}}},
      {"yes and no", {.calls = {{"set_values", {{"enabled", false}, {"limit", 0}}}}}},
      {"a list", {.calls = {{"set_values", {{"items", {1, 2, 3}}, {"label", "12"}}}}}},
      {"code", {.calls = {CodeCall("def f():\n    print(\"a\\\\b\", 'c')\n\nf()")}}},
      {"code with spaces in front", {.calls = {CodeCall("    print(1)")}}},
      {"code that ends with a line", {.calls = {CodeCall("#include <a.h>\n")}}},
      {"markup", {.calls = {CodeCall("<b class=\"x\">a & b</b>")}}},
      {"backslashes", {.calls = {path}}},
      {"a tool twice", {.calls = {kyoto, weather}}},
      {"content and two calls", {.content = content, .calls = {path, kyoto}}},
      {"reasoning, content, call", {.reasoning = thought, .content = content, .calls = {kyoto}}},
      {"reasoning of lines", {.reasoning = "First: 1 < 2.\n\nThen I answer.", .content = content}},
      {"code in content", {.content = "So:\n\n```json\n{\"a\": [1]}\n```\n- done"}},
      {"JSON", {.content = R"({"size": 3, "name": "get_time"})"}},
      {"begins as a call", {.content = R"({"name": "get_time", "size": 3})"}},
      {"looks like a tag", {.content = "a < b, <tool and [c] <| or | <x"}},
      {"other letters",
       {.content = "\xE6\x99\xB4\xE3\x82\x8C\xE3\x81\xA7\xE3\x81\x99 \xF0\x9F\x8C\x9E!"}},
      {"one letter", {.content = "1"}},
  };
}

}  // namespace

std::string ToText(const Said& said) {
  std::string text = "reasoning '" + said.reasoning + "', content '" + said.content + "'";
  // Some templates sort the arguments.
  for (const auto& [name, arguments] : said.calls) {
    text += ", " + name + nlohmann::json(arguments).dump();
  }
  return text;
}

Json MessageOf(const Said& said) {
  Json message = {{"role", "assistant"}, {"content", said.content}};
  if (!said.reasoning.empty()) message["reasoning_content"] = said.reasoning;
  for (const auto& [name, arguments] : said.calls) {
    const std::string id = "call0000" + std::to_string(message["tool_calls"].size());
    message["tool_calls"].push_back(
        {{"id", id},
         {"type", "function"},
         {"function", {{"name", name}, {"arguments", arguments.dump()}}}});
  }
  return message;
}

std::vector<KnownReply> KnownReplies(size_t template_number) {
  const std::vector<KnownReply> all = AllReplies();
  const size_t step = test::Sized(4, 1);
  std::vector<KnownReply> some;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i < kNumAlways || (i + template_number) % step == 0) some.push_back(all[i]);
  }
  return some;
}

bool IsUnreadable(const std::string& file, const KnownReply& reply) {
  static const std::string kAll = "all", kCalls = "calls";
  static const std::map<std::string, std::set<std::string>> kReplies = {
      // Histories show truth and objects in Python's words, or not at all.
      {"ByteDance-Seed-OSS.jinja", {"reasoning and call", "two calls", "yes and no"}},
      {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", {"yes and no"}},
      {"Qwen3-Coder.jinja", {"yes and no"}},
      {"Qwen3.5-4B.jinja", {"yes and no"}},
      {"StepFun3.5-Flash.jinja", {"yes and no"}},
      {"openbmb-MiniCPM5-1B.jinja", {"reasoning and call"}},
      // Line breaks and backslashes stand in Python's quotes as they are. The texts are read as
      // other ones, or the arguments are no JSON.
      {"LFM2.5-8B-A1B.jinja",
       {"call", "content and call", "two calls", "code", "code that ends with a line",
        "backslashes", "a tool twice", "content and two calls"}},
      // Other texts stand between or in front of calls than llama.cpp expects.
      {"MiniMax-M1.jinja", {"two calls", "a tool twice", "content and two calls"}},
      {"Mistral-Small-3.2-24B-Instruct-2506.jinja", {kCalls}},
      {"meetkai-functionary-medium-v3.2.jinja",
       {"content and call", "two calls", "a tool twice", "content and two calls",
        "reasoning, content, call"}},
      {"upstage-Solar-Open-100B.jinja", {kAll}},
      // A reply begins with reasoning, and histories leave that out.
      {"NVIDIA-Nemotron-Nano-v2.jinja",
       {"content", "content and call", "reasoning and content", "content and two calls",
        "reasoning, content, call", "reasoning of lines", "code in content", "JSON",
        "begins as a call", "looks like a tag", "other letters", "one letter"}},
      // Histories show the content as reasoning, or behind the call.
      {"openai-gpt-oss-120b.jinja",
       {"content and call", "reasoning, content, call", "a tool twice"}},  // One call, too.
      {"google-gemma-4-31B-it-interleaved.jinja",
       {"content and call", "content and two calls", "reasoning, content, call"}},
      {"google-gemma-4-31B-it.jinja",
       {"content and call", "content and two calls", "reasoning, content, call"}},
      // Histories show only the first call.
      {"GigaChat3-10B-A1.8B.jinja", {"a tool twice"}},
      {"GigaChat3.1-10B-A1.8B.jinja", {"a tool twice"}},
  };
  const auto found = kReplies.find(file);
  if (found == kReplies.end()) return false;
  const std::set<std::string>& names = found->second;
  return names.contains(reply.name) || names.contains(kAll) ||
         (names.contains(kCalls) && !reply.said.calls.empty());
}

bool MayNotStream(const KnownReply& reply) { return reply.name == "begins as a call"; }

bool ShowsNoReply(const std::string& file) {
  static const std::set<std::string> kFiles = {
      "Apriel-1.6-15b-Thinker-fixed.jinja",
      "CohereForAI-c4ai-command-r-plus-tool_use.jinja",
      "Qwen-QwQ-32B.jinja",
      "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja",
      "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja",
      "llama-cpp-deepseek-r1.jinja",
      "llama-cpp-rwkv-world.jinja",
  };
  return kFiles.contains(file);
}

}  // namespace attndb::server
