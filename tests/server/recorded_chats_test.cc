// Goal:   the bytes of a prompt, and the grammar of the replies to it, are those of llama.cpp's own
//         server: each of its 70 chat templates, 300 chats with each, in a short run 60.
// Method: bodies of requests (chat_cases.py) are read and rendered as `attndb serve` does it, and
//         compared with the digests of what llama-server answered (record_llama_server.py).
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "engines/llama/gguf_file.h"
#include "engines/llama/gguf_test_util.h"
#include "engines/llama/llama_engine.h"
#include "server/json.h"
#include "server/openai/text_request.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"
#include "testing/test_size.h"

namespace attndb::server {
namespace {

constexpr size_t kDigits = 8;
constexpr int64_t kNow = 1772366400;  // chat_cases.py's.
constexpr std::string_view kRefused = "--------";
constexpr std::string_view kNotSaid = "????????";  // llama-server did not tell the grammar.

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file.good()) << path << ": `make test` sets it up";
  return text.str();
}

std::vector<std::string> Lines(const std::string& path) {
  std::istringstream file(FileText(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The first digits of the SHA-256.
std::string Digest(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  unsigned length = 0;
  EVP_Digest(text.data(), text.size(), hash.data(), &length, EVP_sha256(), nullptr);
  std::string digits;
  for (size_t i = 0; i < kDigits / 2; ++i) {
    digits += "0123456789abcdef"[hash[i] >> 4];
    digits += "0123456789abcdef"[hash[i] & 15];
  }
  return digits;
}

struct Recorded {
  std::string cases;                         // The digest of all bodies.
  std::map<std::string, std::string> lines;  // For each template: 2 * kDigits for each chat.
};

Recorded ReadRecord() {
  Recorded record;
  for (const std::string& line : Lines(ATTNDB_RECORDED_CHATS)) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    if (name == "cases") record.cases = line.substr(space + 1);
    if (name.ends_with(".jinja")) record.lines[name] = line.substr(space + 1);
  }
  return record;
}

std::vector<std::string> Templates() {
  std::vector<std::string> names;
  for (const auto& [name, line] : ReadRecord().lines) names.push_back(name);
  return names;
}

std::string PromptText(const llama::RenderedPrompt& prompt) {
  std::string text;
  for (const llama::PromptItem& item : prompt.items) text += item.text;
  return text;
}

// record_llama_server.py's form_text.
std::string FormText(const llama::ReplyForm& form, const std::vector<std::string>& stops) {
  std::string text = form.is_lazy ? "lazy" : "eager";
  for (const llama::GrammarTrigger& trigger : form.triggers) {
    text += (trigger.is_pattern ? "\npattern " : "\nword ") + trigger.text;
  }
  text += "\nbegins " + form.generation_prompt;
  for (const std::string& stop : stops) text += "\nstop " + stop;
  for (const std::string& stop : form.stop) text += "\nstop " + stop;
  return text + "\ngrammar " + form.grammar;
}

struct Made {
  std::string prompt;  // As in the record.
  std::string form;
  std::string words;  // Both texts, or why the chat is refused.
};

Made MadeOf(const llama::LlamaEngine& engine, const std::string& body) {
  const auto rendered = [&]() -> Result<Made> {
    ATTNDB_ASSIGN_OR_RETURN(const Json json, ParseJson(body));
    ATTNDB_ASSIGN_OR_RETURN(TextRequest request, ParseChat(json));
    request.chat.now = kNow;
    ATTNDB_ASSIGN_OR_RETURN(const llama::RenderedPrompt prompt,
                            engine.Render(request.messages, request.chat));
    const std::string text = PromptText(prompt);
    const std::string form = FormText(prompt.form, request.stop);
    return Made{Digest(text), Digest(form), text + "\n\n" + form};
  };
  Result<Made> made = rendered();
  if (made.ok()) return *std::move(made);
  return {std::string(kRefused), std::string(kRefused), made.status().ToString()};
}

// The tiny model with this chat template.
Result<llama::LlamaEngine> OpenWith(const std::string& source, const std::string& path) {
  ATTNDB_ASSIGN_OR_RETURN(const llama::GgufFile file,
                          llama::GgufFile::Open(llama::TinyModel("llama_spm")));
  llama::GgufParts parts = llama::GgufParts::Of(file);
  parts.Set("tokenizer.chat_template", llama::GgufText(source));
  std::ofstream(path, std::ios::binary) << parts.Bytes();
  return llama::LlamaEngine::Open(path, llama::TinyOptions(llama::HookVariant::kRewrite));
}

// The chats are drawn independently of each other, so that each fifth is a sample like any other.
// A short run takes other fifths with other templates: together they have all chats.
std::vector<size_t> ChatsWith(const std::string& name, size_t num_chats) {
  const size_t step = test::Sized(5, 1);
  const std::vector<std::string> names = Templates();
  const auto place = std::ranges::find(names, name);
  std::vector<size_t> chats;
  for (size_t i = static_cast<size_t>(place - names.begin()) % step; i < num_chats; i += step) {
    chats.push_back(i);
  }
  return chats;
}

class RecordedChatsTest : public testing::TestWithParam<std::string> {
 protected:
  RecordedChatsTest() {
    setenv("TZ", "UTC", 1);  // NOLINT(concurrency-mt-unsafe): no other thread runs yet.
  }
};

TEST_P(RecordedChatsTest, PromptsAndGrammarsAreThoseOfLlamaServer) {
  const std::string expected = ReadRecord().lines[GetParam()];
  const std::vector<std::string> bodies = Lines(ATTNDB_CHAT_CASES);
  ASSERT_EQ(expected.size(), 2 * kDigits * bodies.size());
  const test::TempDir folder;
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const llama::LlamaEngine engine,
      OpenWith(FileText(ATTNDB_TEMPLATES "/" + GetParam()), folder.File("model.gguf")));
  std::string prompts;
  std::string forms;
  std::string first;
  for (const size_t i : ChatsWith(GetParam(), bodies.size())) {
    const Made made = MadeOf(engine, bodies[i]);
    const std::string_view wanted = std::string_view(expected).substr(2 * kDigits * i, 2 * kDigits);
    const bool same_prompt = made.prompt == wanted.substr(0, kDigits);
    const std::string_view form = wanted.substr(kDigits);
    const bool same_form = form == kNotSaid || made.form == form;
    if (!same_prompt) prompts += " " + std::to_string(i);
    if (!same_form) forms += " " + std::to_string(i);
    if ((!same_prompt || !same_form) && first.empty()) {
      first = "chat " + std::to_string(i) + ", llama-server " + std::string(wanted) + ":\n" +
              bodies[i] + "\n" + made.words;
    }
  }
  EXPECT_EQ(prompts, "") << first;
  EXPECT_EQ(forms, "") << first;
}

INSTANTIATE_TEST_SUITE_P(All, RecordedChatsTest, testing::ValuesIn(Templates()),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) {
                             if (isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

TEST(RecordedChatsListTest, HasEachTemplateAndTheseChats) {
  std::string bodies;
  for (const std::string& line : Lines(ATTNDB_CHAT_CASES)) {
    bodies += (bodies.empty() ? "" : "\n") + line;
  }
  EXPECT_EQ(ReadRecord().cases, Digest(bodies));
  EXPECT_EQ(ReadRecord().lines.size(), 70);
}

}  // namespace
}  // namespace attndb::server
