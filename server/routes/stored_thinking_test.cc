// Goal:   a stored response tells how many tokens its thinking had, also where nobody tells the
//         marks of the model's thinking.
// Method: a tiny random model with a template of such a model. The test stores the record of a
//         response itself, because a random model does not think; a server gives the response.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "server/responses/response_record.h"
#include "server/routes/tiny_server_test_util.h"

namespace attndb::server {
namespace {

constexpr char kThought[] = "It is night, and cats are grey then.";

class StoredThinkingTest : public TinyServerTest {
 protected:
  void SetUp() override {
    std::ifstream file(std::filesystem::path(ATTNDB_CHAT_TEMPLATES) / "muse-glimmer.jinja");
    llama::EngineOptions options = Engine();
    options.chat_template = std::string(std::istreambuf_iterator<char>(file), {});
    llama::LlamaEngine engine = *llama::LlamaEngine::Open(llama::TinyModel("llama_bpe"), options);
    num_thought_ = engine.Tokenize(kThought, false, false)->size();
    DB db = *DB::Open(directory_.File("store"), {});
    Store(engine, db, "turn-long", 1000);
    Store(engine, db, "turn-short", 3);
    auto server = Server::Start(std::move(engine), std::move(db), Options());
    ATTNDB_ASSERT_OK(server.status());
    server_ = *std::move(server);
  }

  // A response whose record counts no tokens of the thinking.
  static void Store(llama::LlamaEngine& engine, const DB& db, const std::string& name,
                    uint64_t num_reply_tokens) {
    const Json asked = {{"input", "Which colour has the cat?"}};
    Result<ResponseRequest> request = ParseResponse(asked);
    ATTNDB_ASSERT_OK(request.status());
    ATTNDB_ASSERT_OK(TakeConversation({}, &*request));
    ResponseRecord record;
    record.frame = {.context = "", .model = "m", .created = 1, .settings = request->settings};
    record.reply = std::string(" to=self<|message|>") + kThought +
                   "<|eom|><|start|>assistant to=user<|message|>Grey.<|eot|>";
    record.status = kCompleted;
    record.usage = ResponseUsage({}, {.num_tokens = num_reply_tokens});
    const std::vector<TokenId> tokens = {1, static_cast<TokenId>(num_reply_tokens % 100)};
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(engine.spec(), tokens, {}));
    ATTNDB_ASSERT_OK(engine.Prefill(start.session, start.rest));
    ATTNDB_ASSERT_OK(db.Store(
        start.session, tokens,
        {.name = name, .note = RecordFront(record.frame, *request, {}) + RecordEnd(record)}));
  }
  Json Get(const std::string& context) {
    return *ParseJson(Send("GET", "/v1/responses/resp_" + context, Json::object()).body);
  }

  uint64_t num_thought_ = 0;
};

TEST_F(StoredThinkingTest, ItsTokensAreCounted) {
  const Json answer = Get("turn-long");
  ASSERT_EQ(answer["output"].size(), 2u) << ToText(answer);
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], kThought);
  EXPECT_EQ(answer["output"][1]["content"][0]["text"], "Grey.");
  EXPECT_EQ(answer["usage"]["output_tokens_details"]["reasoning_tokens"], num_thought_);
  EXPECT_EQ(Get("turn-short")["usage"]["output_tokens_details"]["reasoning_tokens"], 3)
      << "no more than the reply has";
}

}  // namespace
}  // namespace attndb::server
