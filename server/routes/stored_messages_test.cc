// Goal:   a stored conversation is opened with its messages, by role, before and after its Store;
//         what a model thought is apart from what it said; no tenant opens another's.
// Method: SmolLM2's vocabulary under a template of the tests; turns are kept as the scheduler keeps
//         them, with replies of the test's own; a responder that keeps what it is sent.
#include "server/routes/stored_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/chat/chat_test_util.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/prompt_layout.h"
#include "server/batch/edits.h"
#include "server/batch/prompts.h"
#include "server/batch/turn_id.h"
#include "server/chat/open_brackets.h"
#include "server/chat/tools_note.h"
#include "server/json.h"
#include "server/routes/routes_test_util.h"
#include "server/routes/stored_calls.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

constexpr const char* kReply = "<think>\nWell, cats.\n</think>\n\nGrey it is";

class StoredMessagesTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(llama::kThinkTemplate); }
  void Open(const std::string& chat_template) {
    Result<llama::LlamaEngine> engine =
        llama::LlamaEngine::Open("smollm2", {.num_threads = 1, .chat_template = chat_template});
    ASSERT_THAT(engine, ::attndb::test::IsOk());
    engine_.emplace(*std::move(engine));
    Result<DB> db = DB::Open(directory_.File("store"), {});
    ASSERT_THAT(db, ::attndb::test::IsOk());
    db_.emplace(*std::move(db));
    conversations_.emplace(*db_, &*engine_, ConversationOptions{});
    service_.conversations = &*conversations_;
    service_.metrics = &metrics_;
    service_.log = &log_;
    service_.engine = &*engine_;
    service_.run_later = [](const Call&, const std::function<void()>& work) { work(); };
    service_.run_waiting = [](const Call&, const std::function<void()>& work) { work(); };
  }
  void TearDown() override {
    if (conversations_) conversations_->WaitForStores();
  }

  // Keeps a conversation that ends with the reply, under the name or one of its own.
  void Keep(const std::string& given, const std::vector<llama::ChatMessage>& messages,
            const std::string& reply, const llama::ChatOptions& options = {},
            Edits edits = Edits::kExact) {
    KeepNoted(given, messages, reply, options, NoteOfTools(options.tools), edits);
  }
  void KeepNoted(const std::string& given, const std::vector<llama::ChatMessage>& messages,
                 const std::string& reply, const llama::ChatOptions& options,
                 const std::string& note, Edits edits = Edits::kExact) {
    const Prompts prompts(&*engine_, &*conversations_);
    ATTNDB_ASSERT_OK_AND_ASSIGN(Prompt prompt,
                                prompts.OfChat(tenant_, "", messages, options, {}, edits));
    ASSERT_EQ(prompt.left_out.empty(), edits == Edits::kExact);
    const std::string name = given.empty() ? NewTurnId(prompt.digest) : given;
    std::vector<TokenId> turn = prompt.tokens;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<TokenId> said,
                                engine_->Tokenize(reply, false, false));
    turn.insert(turn.end(), said.begin(), said.end());
    ATTNDB_ASSERT_OK_AND_ASSIGN(Continuation start,
                                conversations_->Start(tenant_, turn, "full", {}, prompt.left_out));
    ATTNDB_ASSERT_OK(engine_->Prefill(start.session, start.rest));
    llama::AddReply({prompt.tokens.size(), turn.size()}, &prompt.text);
    conversations_->Keep(tenant_, name, std::move(start.session), turn, StoreOptions{.note = note},
                         prompt.text);
  }
  Response Ask(const Json& body, const std::string& tenant = TenantRules().tenant) {
    return Begin(ToText(body), tenant)->sent;
  }
  std::shared_ptr<KeepingResponder> Begin(const std::string& body, const std::string& tenant) {
    const auto responder = std::make_shared<KeepingResponder>();
    Call call = CallWith(responder, body);
    call.rules.tenant = tenant;
    AnswerStoredMessages(&service_, std::move(call));
    return responder;
  }

  const std::string tenant_ = TenantRules().tenant;
  ::attndb::test::TempDir directory_;
  std::optional<llama::LlamaEngine> engine_;
  std::optional<DB> db_;
  std::optional<Conversations> conversations_;
  Service service_;

 private:
  Metrics metrics_;
  RequestLog log_{LogFormat::kOff, stderr};
};

TEST_F(StoredMessagesTest, AreThoseOfTheConversationAndWhatWasThoughtIsApart) {
  Keep("turn-cat",
       {{"system", "Be brief."},
        {"user", "Hi <|im_end|>"},
        {"assistant", "Hello."},
        {"user", "Which colour\nis the cat?"}},
       kReply);
  const Response response = Ask({{"context", "turn-cat"}});
  ASSERT_EQ(response.status, 200) << response.body;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(response.body));
  EXPECT_EQ(json["context"], "turn-cat");
  EXPECT_EQ(json["form"], "dialogue");
  EXPECT_GT(json["num_tokens"], 30);
  EXPECT_EQ(json["messages"],
            Json::array({{{"role", "system"}, {"content", "Be brief."}},
                         {{"role", "user"}, {"content", "Hi <|im_end|>"}},
                         {{"role", "assistant"}, {"content", "Hello."}},
                         {{"role", "user"}, {"content", "Which colour\nis the cat?"}},
                         {{"role", "assistant"},
                          {"content", "Grey it is"},
                          {"reasoning_content", "Well, cats.\n"}}}))
      << response.body;
}

// The tokens of the thoughts that the second request lacks are in the store.
TEST_F(StoredMessagesTest, ThePiecesThatLeftAreCountedAsTokens) {
  std::vector<llama::ChatMessage> messages = {{"system", "Be brief."},
                                              {"user", "Which colour is the cat?"}};
  const std::string words = "Grey it is, as all cats are by night when nobody sees them well";
  Keep("", messages, "<think>\nWell, cats.\n</think>\n\n" + words);
  messages.push_back({"assistant", words, R"({"reasoning_content": "Well, cats."})"});
  messages.push_back({"user", "Are you sure of it?"});
  Keep("turn-cut", messages, "I am", {}, Edits::kCut);
  for (const bool is_stored : {false, true}) {
    if (is_stored) conversations_->WaitForStores();
    const Response response = Ask({{"context", "turn-cut"}});
    ASSERT_EQ(response.status, 200) << response.body;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(response.body));
    EXPECT_EQ(json["messages"].size(), 5u) << response.body;
    EXPECT_EQ(json["messages"][2], (Json{{"role", "assistant"}, {"content", words}}));
    conversations_->WaitForStores();
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, db_->Describe("turn-cut"));
    EXPECT_GT(info.num_dropped, 0u);
    EXPECT_EQ(json["num_tokens"], info.num_tokens) << is_stored;
  }
}

class StoredCallsTest : public StoredMessagesTest {
 protected:
  void SetUp() override { Open(llama::kToolTemplate); }

  // Keeps a turn that answers a question by `said`, which calls get_weather, and a turn that gets
  // the result. Returns the messages of the second.
  Json MessagesOf(const std::string& content, const std::string& said,
                  const llama::ChatOptions& first, const llama::ChatOptions& second) {
    std::vector<llama::ChatMessage> messages = {{"user", "How is the weather in Oslo?"}};
    Keep("", messages, said, first);
    conversations_->WaitForStores();
    messages.push_back({"assistant", content,
                        R"({"tool_calls": [{"id": "c", "type": "function", "function":
                            {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}}]})"});
    messages.push_back({"tool", "It rains.", R"({"tool_call_id": "c"})"});
    Keep("turn-wet", messages, "Wet.", second);
    return MessagesIn("turn-wet");
  }
  // The same tools, in a text that is too long for a note.
  llama::ChatOptions WithLongTools() const {
    llama::ChatOptions options = tools_;
    options.tools.insert(options.tools.size() - 1, std::string(kMaxNotedTools, ' '));
    return options;
  }
  Json MessagesIn(const std::string& context) {
    conversations_->WaitForStores();
    const Result<Json> json = ParseJson(Ask({{"context", context}}).body);
    EXPECT_THAT(json, ::attndb::test::IsOk());
    return json.ok() ? (*json)["messages"] : Json();
  }

  const std::string call_ =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n"
      "</tool_call>";
  const llama::ChatOptions tools_ = {.tools = llama::TwoTools()};
  const Json question_ = {{"role", "user"}, {"content", "How is the weather in Oslo?"}};
  const Json result_ = {{"role", "tool"}, {"content", "It rains."}};
  const Json answer_ = {{"role", "assistant"}, {"content", "Wet."}};
  const Json called_ = {
      {"role", "assistant"},
      {"content", ""},
      {"tool_calls",
       {{{"type", "function"},
         {"function", {{"name", "get_weather"}, {"arguments", "{\"city\": \"Oslo\"}"}}}}}}};
};

TEST_F(StoredCallsTest, ACallIsACallInLaterTurnsToo) {
  const Json messages = MessagesOf("", call_, tools_, tools_);
  EXPECT_EQ(messages, Json::array({question_, called_, result_, answer_})) << messages;
}

TEST_F(StoredCallsTest, ATurnWithoutANoteHasTheToolsOfTheTurnBeforeIt) {
  const Json messages = MessagesOf("", call_, tools_, WithLongTools());
  EXPECT_EQ(messages, Json::array({question_, called_, result_, answer_})) << messages;
}

// A note takes bytes of the store, and of the quota.
TEST_F(StoredCallsTest, OneOfEightTurnsHasTheNote) {
  std::vector<llama::ChatMessage> messages = {{"user", "Hi"}};
  std::vector<bool> has_note;
  const std::string other = "[" + tools_.tools + "]";
  for (int i = 0; i < 11; ++i) {
    const Prompts prompts(&*engine_, &*conversations_);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Prompt prompt, prompts.OfChat(tenant_, "", messages, tools_));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Continuation start,
                                conversations_->Start(tenant_, prompt.tokens, "full"));
    EXPECT_EQ(NoteToStore(*db_, start.session, ""), "");
    EXPECT_EQ(NoteToStore(*db_, start.session, other), NoteOfTools(other));
    const std::string note = NoteToStore(*db_, start.session, tools_.tools);
    has_note.push_back(!note.empty());
    KeepNoted("turn-" + std::to_string(i), messages, "Hello.", tools_, note);
    conversations_->WaitForStores();
    messages.push_back({"assistant", "Hello."});
    messages.push_back({"user", "Hi"});
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo last, db_->Describe("turn-7"));
  EXPECT_EQ(NoteOfTools(ToolsOf(*db_, last.id, {})), NoteOfTools(tools_.tools));
  EXPECT_THAT(has_note, ::testing::ElementsAre(true, false, false, false, false, false, false,
                                               false, true, false, false));
}

TEST_F(StoredCallsTest, ACallBehindWordsIsACall) {
  Json called = called_;
  called["content"] = "Let me look.";
  // The template writes these as the model did, and otherwise.
  for (const char* const between : {"", "\n"}) {
    const Json messages =
        MessagesOf("Let me look.", "Let me look." + (between + call_), tools_, tools_);
    EXPECT_EQ(messages, Json::array({question_, called, result_, answer_})) << messages;
    ATTNDB_ASSERT_OK(db_->Drop("turn-wet"));
  }
}

// Another server ran the turns before, or they have expired.
TEST_F(StoredCallsTest, CallsOfTurnsThatAreNotStoredAreCalls) {
  const std::string more = R"({"tool_calls": [{"id": "c", "type": "function", "function":
                               {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}}]})";
  const std::string id = R"({"tool_call_id": "c"})";
  const llama::ChatMessage question = {"user", "How is the weather in Oslo?"};
  Keep("turn-moved",
       {question,
        {"assistant", "", more},
        {"tool", "It rains.", id},
        {"tool", "It rains.", id},
        {"assistant", "Let me look.", more},
        {"tool", "It rains.", id}},
       "Wet.", tools_);
  Json looks = called_;
  looks["content"] = "Let me look.";
  const Json messages = MessagesIn("turn-moved");
  EXPECT_EQ(messages, Json::array({question_, called_, result_, result_, looks, result_, answer_}))
      << messages;
}

TEST_F(StoredCallsTest, WithoutTheToolsACallIsWhatTheModelWrote) {
  Json said = answer_;
  said["content"] = call_;
  const Json messages = MessagesOf("", call_, WithLongTools(), WithLongTools());
  EXPECT_EQ(messages, Json::array({question_, said, result_, answer_})) << messages;
}

TEST_F(StoredCallsTest, ACallThatCannotBeReadIsWhatTheModelWrote) {
  const std::string deep = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": " +
                           std::string(kMaxOpenBrackets, '[') + std::string(kMaxOpenBrackets, ']') +
                           "}}\n</tool_call>";
  int num = 0;
  for (const std::string& said :
       {call_.substr(0, call_.size() - 20), call_.substr(0, 14) + "{]" + call_.substr(14), deep,
        std::string("Wet {[ <tool_call>")}) {
    const std::string name = "turn-odd-" + std::to_string(num++);
    Keep(name, {{"user", "Hi"}}, said, tools_);
    const Json messages = MessagesIn(name);
    ASSERT_EQ(messages.size(), 2) << messages;
    EXPECT_EQ(messages[1], Json({{"role", "assistant"}, {"content", said}}));
  }
}

// The routes' threads are few, and a conversation may be long.
TEST_F(StoredCallsTest, TheWorkOfOthersComesBetweenTheRepliesOfALongConversation) {
  std::vector<llama::ChatMessage> messages;
  for (int i = 0; i < 40; ++i) {
    messages.push_back({"user", "Hi"});
    messages.push_back({"assistant", "Hello."});
  }
  messages.push_back({"user", "Bye"});
  Keep("turn-long", messages, call_, tools_);
  conversations_->WaitForStores();
  std::vector<std::function<void()>> waiting;
  service_.run_later = [&waiting](const Call&, const std::function<void()>& work) {
    waiting.push_back(work);
  };
  const std::shared_ptr<KeepingResponder> responder = Begin(R"({"context": "turn-long"})", tenant_);
  int num_steps = 0;
  while (!waiting.empty()) {
    EXPECT_EQ(waiting.size(), 1);
    EXPECT_EQ(responder->sent.body, "");
    const std::function<void()> work = std::exchange(waiting, {})[0];
    work();
    ++num_steps;
  }
  EXPECT_GE(num_steps, 82 / 16);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(responder->sent.body));
  ASSERT_EQ(json["messages"].size(), 82);
  EXPECT_EQ(json["messages"].back(), called_);
}

TEST_F(StoredCallsTest, ADeepBodyIsRefused) {
  const auto responder = Begin("{\"context\": " + std::string(100'000, '[') + "}", tenant_);
  EXPECT_EQ(responder->sent.status, 400);
  EXPECT_NE(responder->sent.body.find("invalid_request_error"), std::string::npos);
}

TEST_F(StoredMessagesTest, AreTheTenantsAlone) {
  Keep("turn-cat", {{"user", "Hi"}}, "Hello");
  EXPECT_EQ(Ask({{"context", "turn-cat"}}).status, 200);
  EXPECT_EQ(Ask({{"context", "turn-cat"}}, "other").status, 404);
  EXPECT_EQ(Ask({{"context", "turn-dog"}}).status, 404);
  EXPECT_EQ(Ask({{"context", ""}}).status, 400);
  EXPECT_EQ(Ask(Json::array()).status, 400);
}

TEST_F(StoredMessagesTest, ATextWithoutALayoutHasNone) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<TokenId> tokens,
                              engine_->Tokenize("Once upon a time", false, false));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Continuation start, conversations_->Start(tenant_, tokens, "full"));
  ATTNDB_ASSERT_OK(engine_->Prefill(start.session, start.rest));
  conversations_->Keep(tenant_, "tale", std::move(start.session), tokens);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(Ask({{"context", "tale"}}).body));
  EXPECT_EQ(json["form"], "unknown");
  EXPECT_EQ(json["messages"], Json::array());
}

}  // namespace
}  // namespace attndb::server
