// Goal:   a request may use all of its window; clients get what they ask for in the forms in which
//         they ask; a default that memory has no room for refuses nothing.
// Method: a server on a tiny random model, asked over HTTP with ids of tokens, so that each prompt
//         has an exact length.
#include "server/routes/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/http/client.h"
#include "server/http/http_test_util.h"
#include "server/json.h"
#include "server/server.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kWindow = 64;
constexpr uint64_t kChatWindow = 256;  // The markup of a message alone takes some 70 tokens.

class TextTest : public ::testing::Test {
 protected:
  struct Answer {
    int status = 0;
    std::map<std::string, std::string> headers;
    std::string body;

    Json json() const {
      const Result<Json> parsed = ParseJson(body);
      EXPECT_THAT(parsed, ::attndb::test::IsOk()) << body;
      return parsed.ok() ? *parsed : Json::object();
    }
    std::string error() const { return json()["error"]["message"].get<std::string>(); }
    uint64_t usage(const char* field) const { return json()["usage"][field].get<uint64_t>(); }
    uint64_t cached() const {
      return json()["usage"]["prompt_tokens_details"]["cached_tokens"].get<uint64_t>();
    }
    std::string finish() const { return json()["choices"][0]["finish_reason"].get<std::string>(); }
  };

  void Start(uint64_t window_tokens = kWindow, uint64_t memory_bytes = 0,
             const std::string& model = "llama_spm") {
    llama::EngineOptions engine = llama::TinyOptions(llama::HookVariant::kRewrite);
    engine.cache_dir = directory_.File("cache");
    ServerOptions options;
    options.listener.port = 0;
    options.plan = "full";
    options.model_id = "tiny/model";
    options.window_tokens = window_tokens;
    DBOptions db = {.host_memory_bytes = memory_bytes};
    if (memory_bytes > 0) db.query_sample = 0;
    auto server = Server::Start(*llama::LlamaEngine::Open(llama::TinyModel(model), engine),
                                *DB::Open(directory_.File("store"), db), options);
    ATTNDB_ASSERT_OK(server.status());
    server_ = *std::move(server);
  }
  void Restart(uint64_t window_tokens) {
    server_->Stop(kPatience);
    server_.reset();
    Start(window_tokens);
  }

  Answer Ask(const std::string& method, const std::string& path, const std::string& body) const {
    auto client = Client::Make({.url = "http://127.0.0.1:" + std::to_string(server_->port()),
                                .silence_timeout = kPatience});
    EXPECT_THAT(client, ::attndb::test::IsOk());
    Result<ClientAnswer> sent = (*client)->Send({.method = method, .path = path, .body = body});
    EXPECT_THAT(sent, ::attndb::test::IsOk());
    return {sent->status, std::move(sent->headers), std::move(sent->body)};
  }
  Answer Complete(const std::vector<TokenId>& prompt, Json fields) const {
    fields["prompt"] = prompt;
    fields["ignore_eos"] = true;
    fields["temperature"] = 0;
    return Ask("POST", "/v1/completions", ToText(fields));
  }
  Answer Chat(const Json& messages, Json fields) const {
    fields["messages"] = messages;
    fields["ignore_eos"] = true;
    fields["temperature"] = 0;
    return Ask("POST", "/v1/chat/completions", ToText(fields));
  }
  // The answer to GET of a context, once the context is durable.
  Json Described(const std::string& name) const {
    for (;;) {
      const Json info = Ask("GET", "/attndb/v1/contexts/" + name, "").json();
      if (info["durable"] == true) return info;
      std::this_thread::yield();
    }
  }
  Answer Import(const std::string& name, const std::string& text, Json fields) const {
    fields["name"] = name;
    fields["text"] = text;
    return Ask("POST", "/attndb/v1/contexts", ToText(fields));
  }
  // Ids of a prompt, other ones for another seed.
  static std::vector<TokenId> Ids(size_t count, uint64_t seed = 1) {
    return llama::RandomIds(count, seed, 250);
  }

  ::attndb::test::TempDir directory_;
  std::unique_ptr<Server> server_;
};

TEST_F(TextTest, APromptMayFillTheWindow) {
  Start();
  for (size_t num_tokens = kWindow - 5; num_tokens <= kWindow; ++num_tokens) {
    const Answer answer = Complete(Ids(num_tokens, num_tokens), {{"max_tokens", 3}});
    ASSERT_EQ(answer.status, 200) << num_tokens << " " << answer.body;
    EXPECT_EQ(answer.usage("completion_tokens"), 3u) << num_tokens;
  }
  const Answer whole = Complete(Ids(kWindow - 3, 99), {{"max_tokens", 3}, {"overflow", "refuse"}});
  EXPECT_EQ(whole.status, 200) << whole.body;
  EXPECT_FALSE(whole.headers.contains("x-attndb-dropped"));
  const Answer beyond = Complete(Ids(kWindow + 1), {{"max_tokens", 1}});
  EXPECT_EQ(beyond.status, 400);
  EXPECT_THAT(beyond.error(), HasSubstr("has 65 tokens, more than the model's window of 64"));
}

// Behind others, the last message has the window but for what stays in front.
TEST_F(TextTest, TheLastMessageMayFillWhatIsLeftOfTheWindow) {
  Start(kChatWindow);
  const Json first = {{"role", "user"}, {"content", "a"}};
  const Json reply = {{"role", "assistant"}, {"content", "b"}};
  int num_answered = 0;
  for (size_t num_bytes = 100; num_bytes < 2 * kChatWindow; ++num_bytes) {
    const std::string text(num_bytes, 'a');
    const Json last = {{"role", "user"}, {"content", text}};
    const Answer answer = Chat(Json::array({first, reply, last}), {{"max_tokens", 0}});
    if (answer.status == 200) {
      ++num_answered;
      continue;
    }
    ASSERT_EQ(answer.status, 400) << answer.body;
    // It says what is so: what it counts is one more than the window.
    EXPECT_THAT(answer.error(), HasSubstr("has " + std::to_string(kChatWindow - 3) +
                                          " tokens and the first 4 stay, more than the model's "
                                          "window of 256 tokens"));
    break;
  }
  EXPECT_GT(num_answered, 0);
}

TEST_F(TextTest, ATextOfMegabytesIsRefusedBeforeItIsATurn) {
  Start(kChatWindow);
  std::string text;
  while (text.size() <= llama::TokenizeLimits().piece_bytes) text += "ba be bo bu\n";
  const Json first = {{"role", "user"}, {"content", "a"}};
  const Json last = {{"role", "user"}, {"content", text}};
  const Answer chat = Chat(Json::array({first, last}), {{"max_tokens", 1}});
  EXPECT_EQ(chat.status, 400);
  EXPECT_THAT(chat.error(),
              HasSubstr("the last message has more tokens than the model's window of 256 tokens"));
  const Answer bare = Ask("POST", "/v1/completions", ToText({{"prompt", text}}));
  EXPECT_EQ(bare.status, 400);
  EXPECT_THAT(bare.error(), HasSubstr("the last message has at least "));
}

TEST_F(TextTest, AReplyLongerThanTheWindowCanBeGoneOnFrom) {
  Start(kChatWindow);
  const Json question = {{"role", "user"}, {"content", "Hi"}};
  const Answer answer = Chat(Json::array({question}), {{"max_tokens", 2 * kChatWindow}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json reply = answer.json()["choices"][0]["message"];
  ASSERT_GT(reply["content"].get<std::string>().size(), kChatWindow);
  const Json talk = Json::array({question, reply, {{"role", "user"}, {"content", "And?"}}});
  for (const bool restarts : {false, true}) {
    if (restarts) Restart(kChatWindow);
    const Answer next = Chat(talk, {{"max_tokens", 2}});
    EXPECT_EQ(next.status, 200) << next.body;
  }
  // Nobody gave this one: it would be cut in the middle.
  const Json long_one = {{"role", "user"}, {"content", std::string(2 * kChatWindow, 'x')}};
  const Answer cut = Chat(Json::array({long_one, reply, question}), {{"max_tokens", 2}});
  EXPECT_EQ(cut.status, 400);
  EXPECT_THAT(cut.error(), HasSubstr("messages[0] has more tokens than the model's window of 256"));
}

// The model's tokenizer sets a space before a text, and the marks of its template are words.
TEST_F(TextTest, TextBehindTextIsOneTextAndItsLayoutStaysWithIt) {
  using ::testing::MatchesRegex;
  Start(4096, 0, "llama_space");
  const std::string text = "The light is unbelievable tonight";
  for (const bool raw : {false, true}) {
    const std::string name = raw ? "bare" : "light";
    ASSERT_EQ(Import(name, "The light is unbe", {{"raw", raw}}).status, 200);
    ASSERT_EQ(Import(name, "lievable", {{"append", true}}).status, 200);
    const Json whole = Import("whole", text, {{"raw", raw}, {"dry_run", true}}).json();
    if (raw) {  // A completion goes on with the word.
      const Answer more = Ask("POST", "/v1/completions",
                              ToText({{"context", name},
                                      {"prompt", " tonight"},
                                      {"max_tokens", 0},
                                      {"store_as", "more"}}));
      EXPECT_EQ(more.usage("prompt_tokens"), whole["num_tokens"]) << more.body;
      EXPECT_EQ(Described("more")["text_layout"], "raw");
    } else {
      ASSERT_EQ(Import(name, " tonight", {{"append", true}}).status, 200);
      EXPECT_EQ(Described(name)["num_tokens"], whole["num_tokens"]);
    }
    const std::string layout = Described(name)["text_layout"];
    EXPECT_THAT(layout, MatchesRegex(raw ? "raw" : "document user:[0-9]+-[0-9]+"));
  }
  const Json question = Json::array({{{"role", "user"}, {"content", "Why"}}});
  for (const char* const name : {"talk", ""}) {
    Json fields = {{"max_tokens", 2}};
    fields["context"] = "light";
    if (*name != '\0') fields["store_as"] = name;
    const Answer answer = Chat(question, fields);
    ASSERT_EQ(answer.status, 200) << answer.body;
    const std::string layout = Described(answer.headers.at("x-attndb-context"))["text_layout"];
    EXPECT_THAT(layout, MatchesRegex("dialogue user:[0-9]+-[0-9]+ user:[0-9]+-[0-9]+ "
                                     "assistant:[0-9]+-[0-9]+"));
  }
  const Answer alone = Chat(question, {{"max_tokens", 2}});
  const std::string layout = Described(alone.headers.at("x-attndb-context"))["text_layout"];
  EXPECT_THAT(layout, MatchesRegex("dialogue user:[0-9]+-[0-9]+ assistant:[0-9]+-[0-9]+"));
}

TEST_F(TextTest, ALargerWindowHasAgainWhatASmallerOneLost) {
  Start();
  const Answer first = Complete(Ids(40), {{"max_tokens", 60}, {"store_as", "talk"}});
  ASSERT_EQ(first.status, 200) << first.body;
  ASSERT_EQ(first.usage("dropped_tokens"), kWindow) << "a half twice";
  Restart(4096);
  for (const char* const overflow : {"refuse", "truncate"}) {
    const Answer next =
        Complete({7, 8, 9}, {{"context", "talk"}, {"overflow", overflow}, {"max_tokens", 2}});
    ASSERT_EQ(next.status, 200) << next.body;
    EXPECT_EQ(next.usage("prompt_tokens"), 103u);
    EXPECT_FALSE(next.headers.contains("x-attndb-dropped")) << next.body;
  }
}

// A token's K and V take 256 bytes. A sixteenth of the memory is promised to nobody.
TEST_F(TextTest, ADefaultThatMemoryCannotPromiseIsLowered) {
  constexpr uint64_t kMemory = uint64_t{512} << 10;
  constexpr uint64_t kPromisable = kMemory / 16 * 15 / 256;
  Start(4096, kMemory);
  ASSERT_EQ(server_->max_tokens(), kPromisable / 2);
  const Answer answer = Complete(Ids(30), Json::object());
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.usage("completion_tokens"), kPromisable / 2);
  // A number that the client says is meant.
  EXPECT_EQ(Complete(Ids(30), {{"max_tokens", kPromisable}}).status, 400);
}

TEST_F(TextTest, ChoicesShareWhatMemoryCanPromise) {
  constexpr uint64_t kMemory = uint64_t{512} << 10;
  constexpr uint64_t kPromisable = kMemory / 16 * 15 / 256;
  Start(4096, kMemory);
  const Answer answer = Complete(Ids(30), {{"n", 3}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  // Two are forks: they copy the prompt, and their last blocks have room to spare.
  EXPECT_EQ(answer.usage("completion_tokens"), 3 * ((kPromisable - 30 - 2 * (30 + 256)) / 3));
  EXPECT_EQ(Complete(Ids(30, 2), {{"n", 2}, {"max_tokens", kPromisable / 2}}).status, 400);
}

TEST_F(TextTest, ADefaultThatMemoryCanPromiseStays) {
  Start(4096);
  EXPECT_EQ(server_->max_tokens(), ServerOptions().max_tokens);
  // No request takes more than a window, whatever its max_tokens.
  server_->Stop(kPatience);
  server_.reset();
  Start(kWindow, uint64_t{512} << 10);
  EXPECT_EQ(server_->max_tokens(), ServerOptions().max_tokens);
}

TEST_F(TextTest, AReplyMayGoOnUntilTheWindowIsFull) {
  Start();
  for (const char* const number : {"-1", "-1.0"}) {
    const Answer answer = Complete(Ids(20), {{"max_tokens", *ParseJson(number)}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.usage("completion_tokens"), kWindow - 20);
    EXPECT_EQ(answer.finish(), "length");
    EXPECT_FALSE(answer.headers.contains("x-attndb-dropped"));
  }
  // A client that wants no loss and names no number gets none.
  const Answer kept = Complete(Ids(20), {{"overflow", "refuse"}});
  EXPECT_EQ(kept.usage("completion_tokens"), kWindow - 20);
  EXPECT_EQ(Complete(Ids(kWindow), {{"max_tokens", -1}}).usage("completion_tokens"), 1u);
}

TEST_F(TextTest, APromptCanBeReadAndStoredWithoutAReply) {
  Start();
  const Answer answer = Complete(Ids(30), {{"max_tokens", 0}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.usage("completion_tokens"), 0u);
  EXPECT_EQ(answer.finish(), "length");
  EXPECT_EQ(answer.json()["choices"][0]["text"], "");
  std::vector<TokenId> longer = Ids(30);
  longer.push_back(7);
  EXPECT_EQ(Complete(longer, {{"max_tokens", 1}}).cached(), 30u);

  const Json question = Json::array({{{"role", "user"}, {"content", "Who?"}}});
  const Answer named = Chat(question, {{"max_tokens", 0}, {"store_as", "read"}});
  ASSERT_EQ(named.status, 200) << named.body;
  EXPECT_EQ(named.json()["choices"][0]["message"]["content"], "");
  const uint64_t num_prompt = named.usage("prompt_tokens");
  const Answer streamed = Chat(question, {{"max_tokens", 0}, {"stream", true}});
  EXPECT_THAT(streamed.body, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_THAT(streamed.body, HasSubstr("[DONE]"));

  Restart(kWindow);
  const Answer info = Ask("GET", "/attndb/v1/contexts/read", "");
  EXPECT_EQ(info.json()["num_tokens"], num_prompt) << info.body;
  EXPECT_EQ(Chat(question, {{"max_tokens", 1}}).cached(), num_prompt - 1);
}

TEST_F(TextTest, EqualPromptsAtOnceAreReadOnce) {
  constexpr size_t kPrompt = 351;
  Start(4096);
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([this] {
      const Answer answer = Complete(Ids(kPrompt), {{"max_tokens", 20}});
      EXPECT_EQ(answer.status, 200) << answer.body;
    });
  }
  for (std::thread& client : clients) client.join();
  const std::string metrics = Ask("GET", "/metrics", "").body;
  const std::string name = "\nattndb_pass_prompt_tokens_total ";
  const size_t at = metrics.find(name);
  ASSERT_NE(at, std::string::npos);
  EXPECT_LE(std::stod(metrics.substr(at + name.size())), 1.1 * kPrompt);
}

TEST_F(TextTest, TheModelIsFoundByItsId) {
  Start();
  const Json listed = Ask("GET", "/v1/models", "").json()["data"][0];
  for (const char* const path : {"/v1/models/tiny/model", "/models/tiny/model",
                                 "/v1/models/tiny%2Fmodel", "/v1/models/tiny/model/"}) {
    const Answer answer = Ask("GET", path, "");
    EXPECT_EQ(answer.status, 200) << path;
    EXPECT_EQ(answer.json(), listed) << path;
  }
  const Answer other = Ask("GET", "/v1/models/gpt-4", "");
  EXPECT_EQ(other.status, 404);
  EXPECT_THAT(other.error(), HasSubstr(R"("gpt-4")"));
  EXPECT_THAT(other.error(), HasSubstr(R"("tiny/model")"));
  EXPECT_EQ(Ask("DELETE", "/v1/models/tiny/model", "").status, 405);
}

TEST_F(TextTest, ASlashBehindAPathChangesNothing) {
  Start();
  for (const char* const path :
       {"//", "/health/", "/v1/models/", "/models//", "/attndb/v1/contexts/"}) {
    EXPECT_EQ(Ask("GET", path, "").status, 200) << path;
  }
  const std::string body = ToText({{"prompt", Ids(5)}, {"max_tokens", 1}});
  EXPECT_EQ(Ask("POST", "/v1/completions/", body).status, 200);
  EXPECT_EQ(Ask("GET", "/v1/completions/", "").status, 405);
  EXPECT_EQ(Ask("GET", "/nothing/", "").status, 404);
}

TEST_F(TextTest, NumbersMayBeWrittenWithAPointAndTopKBeOff) {
  Start();
  const std::string body =
      R"({"prompt":[5.0,6,7],"max_tokens":3.0,"top_k":-1,"n":1.0,"seed":5.0,"ignore_eos":true})";
  const Answer answer = Ask("POST", "/v1/completions", body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.usage("completion_tokens"), 3u);
  EXPECT_EQ(answer.usage("prompt_tokens"), 3u);
}

// The data of a stream's events, [DONE] left out.
std::vector<Json> EventsOf(const std::string& body) {
  std::vector<Json> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    const std::string data = body.substr(at + 6, end - at - 6);  // Behind "data: ".
    if (data != "[DONE]") events.push_back(*ParseJson(data));
    at = end + 2;
  }
  return events;
}

// The bytes that the tokens of logprobs have. Random models say bytes that are no text: as JSON.
std::string BytesOf(const Json& content) {
  std::string bytes;
  for (const Json& token : content) {
    for (const Json& byte : token["bytes"]) bytes += static_cast<char>(byte.get<int>());
  }
  return ToText(bytes);
}

// The same tokens, as likely but for the rounding of other passes.
void ExpectAlike(const Json& some, const Json& others) {
  ASSERT_EQ(some.size(), others.size());
  for (size_t i = 0; i < some.size(); ++i) {
    for (const char* const name : {"id", "token", "bytes"}) {
      EXPECT_EQ(some[i][name], others[i][name]) << i;
    }
    EXPECT_NEAR(some[i]["logprob"].get<double>(), others[i]["logprob"].get<double>(), 1e-3);
  }
}

TEST_F(TextTest, EachTokenOfAChatHasItsLogprob) {
  Start(kChatWindow);
  const Json messages = Json::array({{{"role", "user"}, {"content", "a"}}});
  const Json fields = {{"max_tokens", 24}, {"logprobs", true}, {"top_logprobs", 3}};
  const Answer whole = Chat(messages, fields);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const Json choice = whole.json()["choices"][0];
  const Json content = choice["logprobs"]["content"];
  ASSERT_EQ(content.size(), 24u);
  EXPECT_EQ(BytesOf(content), ToText(choice["message"]["content"]));
  for (const Json& token : content) {
    ASSERT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_EQ(token["top_logprobs"][0]["id"], token["id"]) << "a greedy reply";
    double above = token["logprob"].get<double>();
    EXPECT_LT(above, 0);
    for (const Json& likely : token["top_logprobs"]) {
      EXPECT_LE(likely["logprob"].get<double>(), above);
      above = likely["logprob"].get<double>();
    }
  }
  Json streamed = fields;
  streamed["stream"] = true;
  Json of_events = Json::array();
  for (const Json& event : EventsOf(Chat(messages, streamed).body)) {
    const Json& logprobs = event["choices"][0]["logprobs"];
    if (logprobs.is_null()) continue;
    for (const Json& token : logprobs["content"]) of_events.push_back(token);
  }
  ExpectAlike(of_events, content);
  const Answer without = Chat(messages, {{"max_tokens", 24}});
  EXPECT_TRUE(without.json()["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(without.json()["choices"][0]["message"], choice["message"]) << "nothing else changes";
}

TEST_F(TextTest, ACompletionHasLogprobsInTheirOldForm) {
  Start();
  const Json fields = {{"max_tokens", 12}, {"logprobs", 2}};
  const Answer whole = Complete(Ids(5), fields);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const Json logprobs = whole.json()["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    const Json& top = logprobs["top_logprobs"][i];
    ASSERT_TRUE(top.contains(logprobs["tokens"][i].get<std::string>()));
    EXPECT_EQ(top[logprobs["tokens"][i].get<std::string>()], logprobs["token_logprobs"][i]);
  }
  Json streamed = fields;
  streamed["stream"] = true;
  Json offsets = Json::array();
  for (const Json& event : EventsOf(Complete(Ids(5), streamed).body)) {
    const Json& part = event["choices"][0]["logprobs"];
    if (part.is_null()) continue;
    for (const Json& offset : part["text_offset"]) offsets.push_back(offset);
  }
  EXPECT_EQ(offsets, logprobs["text_offset"]);
  const Json none = Complete(Ids(5), {{"max_tokens", 2}, {"logprobs", 0}}).json();
  EXPECT_TRUE(none["choices"][0]["logprobs"]["top_logprobs"].is_null());
  EXPECT_EQ(none["choices"][0]["logprobs"]["tokens"].size(), 2u);
}

TEST_F(TextTest, ABiasSteersAReplyAndItsLogprobsStayTheModels) {
  Start();
  const auto first = [&](Json fields) {
    fields["max_tokens"] = 1;
    fields["n_probs"] = 2;
    const Answer answer = Complete(Ids(5), std::move(fields));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json()["choices"][0]["logprobs"]["content"][0];
  };
  const Json plain = first(Json::object());
  const TokenId best = plain["id"].get<TokenId>();
  const TokenId second = plain["top_logprobs"][1]["id"].get<TokenId>();
  const Json biased = first({{"logit_bias", {{std::to_string(second), 50}}}});
  EXPECT_EQ(biased["id"], second);
  ExpectAlike(biased["top_logprobs"], plain["top_logprobs"]);
  ExpectAlike(Json::array({biased}), Json::array({plain["top_logprobs"][1]}));
  const Json forbidden = first({{"logit_bias", Json::array({Json::array({best, false})})}});
  EXPECT_EQ(forbidden["id"], second);
  const Json drawn = first(
      {{"logit_bias", Json::array({Json::array({best, false})})}, {"post_sampling_probs", true}});
  EXPECT_EQ(drawn["id"], second);
  EXPECT_EQ(drawn["prob"], 1.0);
  EXPECT_EQ(drawn["top_probs"].size(), 1u);
}

TEST_F(TextTest, ABiasThatCannotBeHonouredIsRefused) {
  Start();
  const auto refused = [&](const Json& bias) {
    const Answer answer = Complete(Ids(5), {{"max_tokens", 1}, {"logit_bias", bias}});
    EXPECT_EQ(answer.status, 400) << answer.body;
    return answer.error();
  };
  EXPECT_THAT(refused({{"1000000", 1}}), HasSubstr("logit_bias has token 1000000"));
  Json many = Json::object();
  for (int i = 0; i < 300; ++i) many[std::to_string(i)] = -1;
  EXPECT_EQ(Complete(Ids(5), {{"max_tokens", 1}, {"logit_bias", many}}).status, 200);
  Json all = Json::array();
  for (int i = 0; i < 100'000; ++i) all.push_back({i, false});
  EXPECT_THAT(refused(all), HasSubstr("logit_bias has token"));
}

}  // namespace
}  // namespace attndb::server
