// Goal:   with each chat template that llama.cpp's sources have, a document that was imported
//         yesterday and a chat that was stored yesterday go on today without running a token of
//         them again. A template that shows the date shows that of yesterday.
// Method: a tiny random model with each template, and a clock of the test. `attndb import`'s calls
//         make the document, and `attndb ask`'s ask about it; both also over HTTP, on two servers
//         of one store. A grammar makes the model reply as the template shows replies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/prompt_layout.h"
#include "engines/llama/stored_text.h"
#include "server/routes/tiny_server_test_util.h"

namespace attndb::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kDay = 86'400;
constexpr int64_t kMonday = 1'764'590'400;  // 1 December 2025, 12:00 in UTC.
constexpr char kDocument[] = "The cat is grey.\nIt sleeps on the \"roof\".";
constexpr char kQuestion[] = "Which colour has the cat?";
constexpr char kReply[] = "Grey it is.";
constexpr uint64_t kTornTokens = 2;  // At the place where two texts part.
constexpr char kChat[] = "/v1/chat/completions";

// These show the date.
const std::set<std::string>& Dated() {
  static const std::set<std::string> names = {"Apertus-8B-Instruct",
                                              "Mistral-Small-3.2-24B-Instruct-2506",
                                              "fireworks-ai-llama-3-firefunction-v2",
                                              "ibm-granite-granite-3.3-2B-Instruct",
                                              "meta-llama-Llama-3.1-8B-Instruct",
                                              "meta-llama-Llama-3.2-3B-Instruct",
                                              "meta-llama-Llama-3.3-70B-Instruct",
                                              "muse-glimmer",
                                              "openai-gpt-oss-120b",
                                              "upstage-Solar-Open-100B"};
  return names;
}

// These show a turn otherwise once a question follows it: the mark of a thinking, or a text at the
// prompt's end, is gone in front of the reply. The model reads from there on again.
const std::set<std::string>& Changing() {
  static const std::set<std::string> names = {"Apriel-1.6-15b-Thinker-fixed",
                                              "CohereForAI-c4ai-command-r-plus-tool_use",
                                              "MiniMax-M2",
                                              "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
                                              "NVIDIA-Nemotron-Nano-v2",
                                              "Qwen-QwQ-32B",
                                              "Qwen3.5-4B",
                                              "Reka-Edge",
                                              "StepFun3.5-Flash",
                                              "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
                                              "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
                                              "deepseek-ai-DeepSeek-V3.2",
                                              "llama-cpp-deepseek-r1",
                                              "llama-cpp-rwkv-world",
                                              "openbmb-MiniCPM5-1B"};
  return names;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ATTNDB_CHAT_TEMPLATES)) {
    if (entry.path().extension() == ".jinja") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

std::string TextOf(const llama::RenderedPrompt& prompt) {
  std::string text;
  for (const llama::PromptItem& item : prompt.items) text += item.text;
  return text;
}

Json Said(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

class TemplateDaysTest : public TinyServerTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void TearDown() override { server_.reset(); }  // It has a clock of this object.

  llama::LlamaEngine OpenEngine() {
    std::ifstream file(std::filesystem::path(ATTNDB_CHAT_TEMPLATES) / (GetParam() + ".jinja"));
    llama::EngineOptions options = Engine();
    options.chat_template = std::string(std::istreambuf_iterator<char>(file), {});
    options.clock = [this] { return now_.load(); };
    return *llama::LlamaEngine::Open(llama::TinyModel("llama_bpe"), options);
  }
  DB OpenStore() { return *DB::Open(directory_.File("store"), {}); }
  void Serve(llama::LlamaEngine engine, DB db) {
    ServerOptions options = Options();
    options.window_tokens = 1 << 16;
    auto server = Server::Start(std::move(engine), std::move(db), options);
    ATTNDB_ASSERT_OK(server.status());
    server_ = *std::move(server);
  }

  // Stores a document as `attndb import` does, and notes its tokens.
  void Import(llama::LlamaEngine& engine, const DB& db) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::PromptText text,
                                llama::ImportedText(engine, db, {"cat", false, "", kDocument}, {}));
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start,
                                db.CreateSession(engine.spec(), text.tokens, {}));
    ATTNDB_ASSERT_OK(engine.Prefill(start.session, start.rest));
    ATTNDB_ASSERT_OK(
        db.Store(start.session, text.tokens, {.name = "cat", .text_layout = text.text}));
    document_ = text.tokens;
  }
  // Asks about the document as `attndb ask` does.
  void ExpectThatADocumentGoesOn(const llama::LlamaEngine& engine, const DB& db) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::StoredContext stored,
                                llama::OpenContext(engine, db, "cat"));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::PromptText asked,
                                llama::QuestionBehind(engine, stored, kQuestion));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const SessionStart start,
                                db.CreateSession(engine.spec(), asked.tokens, {}));
    EXPECT_EQ(start.rest.size(), asked.tokens.size() - document_.size());
    EXPECT_EQ(asked.tokens, Asking(engine, kMonday));
    EXPECT_EQ(asked.tokens != Asking(engine, kMonday + kDay), IsDated());
    EXPECT_EQ(asked.text.rendered_at != 0, IsDated());
  }
  // The tokens of the whole prompt as the template makes it at this time.
  static std::vector<TokenId> Asking(const llama::LlamaEngine& engine, int64_t now) {
    const llama::ChatMessage message = {"user", std::string(kDocument) + "\n\n" + kQuestion};
    llama::ChatOptions options;
    options.now = now;
    const auto prompt = engine.Render(std::span(&message, 1), options);
    EXPECT_THAT(prompt, ::attndb::test::IsOk());
    return engine.Follow({}, prompt->items)->joined.tokens;
  }

  // Returns what the model writes for kReply, where the template shows it behind the same prompt
  // once a question follows. `thought`: the JSON of more members of the reply's message.
  static std::optional<std::string> ShownReply(const llama::LlamaEngine& engine,
                                               const std::string& thought) {
    std::vector<llama::ChatMessage> messages = {{"user", kQuestion}};
    const std::string prompt = TextOf(*engine.Render(messages, {}));
    messages.insert(messages.end(), {{"assistant", kReply, thought}, {"user", "Sure?"}});
    const std::string next = TextOf(*engine.Render(messages, {}));
    const size_t end = next.find(kReply);
    if (!next.starts_with(prompt) || end < prompt.size() || end == std::string::npos) return {};
    return next.substr(prompt.size(), end - prompt.size()) + kReply;
  }
  static std::string WrittenReply(const llama::LlamaEngine& engine) {
    for (const char* const thought : {"", R"({"reasoning_content":"Hm."})"}) {
      if (std::optional<std::string> shown = ShownReply(engine, thought)) return *shown;
    }
    // The template shows nothing of a thinking that the prompt begins: the reply ends it.
    const llama::ChatMessage message = {"user", kQuestion};
    const llama::ReplyForm form = engine.Render(std::span(&message, 1), {})->form;
    const bool thinks = !form.thinking_start.empty() && !form.thinking_ends.empty() &&
                        form.generation_prompt.find(form.thinking_start) != std::string::npos;
    return thinks ? "Hm." + form.thinking_ends.front() + kReply : kReply;
  }
  Json AskChat(const Json& messages, const std::string& written) {
    Json asked = {{"messages", messages}, {"temperature", 0}, {"max_tokens", 200}};
    asked["grammar"] = "root ::= " + ToText(Json(written));
    return Ask(kChat, asked);
  }
  static uint64_t Cached(const Json& answer) {
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<uint64_t>();
  }
  // Returns the name of the context of an answer.
  static std::string ContextOf(const Json& answer) {
    return answer["id"].get<std::string>().substr(std::string("chatcmpl-").size());
  }
  std::string TextOfContext(const std::string& name) {
    return Ask("/attndb/v1/text", {{"context", name}, {"special", true}})["text"];
  }

  // Returns the number of tokens that both answers' contexts begin with.
  uint64_t NumCommonTokens(const Json& answer, const Json& next) {
    const std::string text = TextOfContext(ContextOf(answer));
    const std::string next_text = TextOfContext(ContextOf(next));
    const auto end = std::ranges::mismatch(text, next_text).in1;
    return Ask("/tokenize",
               {{"content", std::string(text.begin(), end)}, {"parse_special", true}})["tokens"]
        .size();
  }

  // Some words around the first place where the prompts of two days differ, as on the day of `now`.
  static std::string DateIn(const llama::LlamaEngine& engine, int64_t now, int64_t other) {
    const llama::ChatMessage message = {"user", kQuestion};
    const auto text = [&](int64_t day) {
      llama::ChatOptions options;
      options.now = day;
      return TextOf(*engine.Render(std::span(&message, 1), options));
    };
    const std::string there = text(now);
    const std::string elsewhere = text(other);
    const auto place = std::ranges::mismatch(there, elsewhere).in1 - there.begin();
    const size_t begin = static_cast<size_t>(std::max<std::ptrdiff_t>(place - 8, 0));
    return there.substr(begin, 12);
  }
  bool IsDated() const { return Dated().contains(GetParam()); }

  std::vector<TokenId> document_;
  std::atomic<int64_t> now_ = kMonday;
};

TEST_P(TemplateDaysTest, DocumentsAndChatsGoOnADayLater) {
  std::string written;
  std::string monday;
  std::string tuesday;
  Json messages = Json::array({Said("user", kQuestion)});
  uint64_t num_stored = 0;
  uint64_t num_same_day = 0;
  {
    llama::LlamaEngine engine = OpenEngine();
    DB db = OpenStore();
    ASSERT_NO_FATAL_FAILURE(Import(engine, db));
    written = WrittenReply(engine);
    monday = DateIn(engine, kMonday, kMonday + kDay);
    tuesday = DateIn(engine, kMonday + kDay, kMonday);
    EXPECT_EQ(monday != tuesday, IsDated());
    ASSERT_NO_FATAL_FAILURE(Serve(std::move(engine), std::move(db)));
    const Json answer = AskChat(messages, written);
    num_stored = answer["usage"]["total_tokens"].get<uint64_t>();
    messages.push_back(answer["choices"][0]["message"]);
    EXPECT_THAT(messages[1]["content"], HasSubstr(kReply));
    messages.push_back(Said("user", "Really?"));
    const Json same_day = AskChat(messages, written);
    num_same_day = Cached(same_day);
    EXPECT_GE(num_same_day + kTornTokens, NumCommonTokens(answer, same_day));
    EXPECT_EQ(num_same_day < num_stored, Changing().contains(GetParam()))
        << num_same_day << " of " << num_stored;
    server_->Stop(kPatience);
    server_.reset();
  }
  now_ += kDay;
  llama::LlamaEngine engine = OpenEngine();
  DB db = OpenStore();
  ASSERT_NO_FATAL_FAILURE(ExpectThatADocumentGoesOn(engine, db));
  ASSERT_NO_FATAL_FAILURE(Serve(std::move(engine), std::move(db)));
  Json asked = {{"messages", Json::array({Said("user", kQuestion)})}, {"max_tokens", 1}};
  asked["context"] = "cat";
  EXPECT_GE(Cached(Ask(kChat, asked)), document_.size());

  messages.back() = Said("user", "Sure?");
  const Json next = AskChat(messages, written);
  EXPECT_GE(Cached(next), num_same_day);
  if (!IsDated()) return;
  const std::string text = TextOfContext(ContextOf(next));
  EXPECT_THAT(text, HasSubstr(monday));
  EXPECT_THAT(text, Not(HasSubstr(tuesday)));
}

INSTANTIATE_TEST_SUITE_P(All, TemplateDaysTest, ::testing::ValuesIn(Names()), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(TemplateDaysListTest, HasEachTemplate) { EXPECT_GE(Names().size(), 70u); }

}  // namespace
}  // namespace attndb::server
