// Goal:   the q that a turn keeps of a question are those of the question run by itself; a question
//         changes no reply that is made beside it; a cancelled turn tells nobody.
// Method: tiny random models; the same questions by FindQuestion::Run.
#include "server/batch/question_turn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

constexpr FindHead kHeads[] = {{0, 1}, {1, 0}};

class QuestionTurnTest : public BatchTest {
 protected:
  std::shared_ptr<llama::FindQuestion> Prepare(const std::string& text) {
    return std::make_shared<llama::FindQuestion>(
        *llama::FindQuestion::Prepare(*engine_, text, kHeads));
  }
  // The values of the question's q, of all heads.
  static std::vector<float> Values(const llama::FindQuestion& question) {
    std::vector<float> values;
    for (const TensorView& q : question.query().q) {
      const auto* const data = static_cast<const float*>(q.data);
      values.insert(values.end(), data, data + q.rows() * q.dim());
    }
    return values;
  }
  // Adds the question, and sets `ended` when the turn tells its end.
  std::shared_ptr<Turn> AddQuestion(const std::shared_ptr<llama::FindQuestion>& asked,
                                    std::shared_ptr<Status> status,
                                    std::shared_ptr<test::Event> ended) {
    Result<std::shared_ptr<Turn>> turn = MakeQuestionTurn(
        *engine_, *db_, {.tenant = "default", .asked = asked, .then = [=](const Status& said) {
                           *status = said;
                           ended->Set();
                         }});
    ATTNDB_EXPECT_OK(turn.status());
    ATTNDB_EXPECT_OK(scheduler_->Add(*turn));
    return *turn;
  }
};

TEST_F(QuestionTurnTest, ItKeepsTheQOfTheQuestionAloneAndChangesNoReply) {
  Open("llama_bpe");
  const std::string text = "Where is the spare key of the light?";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::FindQuestion alone,
                              llama::FindQuestion::Run(&*engine_, *db_, text, kHeads));
  const TurnRequest reply = Request("reply", 40, 7, Greedy(24));
  const std::string said = Alone(reply).text;
  StartScheduler();
  const auto beside = Add(reply);
  ASSERT_TRUE(beside->AwaitStart());
  const auto asked = Prepare(text);
  const auto status = std::make_shared<Status>();
  const auto ended = std::make_shared<test::Event>();
  AddQuestion(asked, status, ended);
  ended->Await();
  ATTNDB_ASSERT_OK(*status);
  const std::vector<float> expected = Values(alone);
  const std::vector<float> found = Values(*asked);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-3) << i;
  ASSERT_TRUE(beside->AwaitEnd());
  EXPECT_EQ(beside->text(), said);
}

TEST_F(QuestionTurnTest, ACancelledQuestionTellsNobody) {
  Open("llama_bpe");
  StartScheduler();
  Block();
  const auto status = std::make_shared<Status>();
  const auto ended = std::make_shared<test::Event>();
  const std::weak_ptr<Turn> turn = AddQuestion(Prepare("Where?"), status, ended);
  turn.lock()->Cancel();
  scheduler_->Wake();
  gate_.Set();
  // A later turn has its end behind the cancelled one.
  const auto later = Add(Request("later", 8, 3, Greedy(1)));
  ASSERT_TRUE(later->AwaitEnd());
  EXPECT_TRUE(turn.expired());
  EXPECT_FALSE(ended->IsSet());
}

TEST_F(QuestionTurnTest, AQuestionOfMoreTokensThanAPassTakesIsRefused) {
  llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
  options.ubatch_tokens = 32;
  Open("llama_bpe", options);
  std::string text;
  for (int i = 0; i < 64; ++i) text += " word" + std::to_string(i);
  EXPECT_THAT(MakeQuestionTurn(*engine_, *db_, {.tenant = "default", .asked = Prepare(text)}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("expected at most 32")));
}

}  // namespace
}  // namespace attndb::server
