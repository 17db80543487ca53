// Goal:   the prompt of a follow-up begins with the tokens that the earlier replies were sampled
//         as, as far as the client sends their words, and is else what a tokenizer makes of it.
// Method: a tiny model whose vocabulary has "\u2581bo" as one token, and letters as bytes: replies
//         of bytes are none that its tokenizer makes. Prompts of another tenant, who was told
//         nothing, are the tokenizer's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "server/batch/prompts.h"
#include "server/batch/turn_id.h"
#include "testing/cpu_time.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::ThreadCpuSeconds;
using Messages = std::vector<llama::ChatMessage>;
using Tokens = std::vector<TokenId>;

class FollowUpTest : public BatchTest {
 protected:
  void SetUp() override {
    Open("llama_spm");
    prompts_.emplace(&*engine_, &*conversations_);
    ASSERT_NE(Byte('b'), Byte('o'));
    question_ = *engine_->Conversation(asked_);
  }
  // The token that stands for a byte: behind <unk>, <s>, </s>.
  static TokenId Byte(char c) { return 3 + static_cast<TokenId>(static_cast<unsigned char>(c)); }
  static Tokens Bytes(std::string_view text) {
    Tokens tokens;
    for (const char c : text) tokens.push_back(Byte(c));
    return tokens;
  }
  Tokens Turn(const Tokens& reply) const { return Joined(question_, reply); }
  std::string NewId() const { return NewTurnId(DigestsOf(asked_)->back()); }
  Messages Next(const std::string& words) const {
    return {asked_[0], {"assistant", words}, {"user", "And?"}};
  }
  void Keep(const std::string& id, const Tokens& tokens) {
    conversations_->Keep(kMine, id, SessionOf(kMine, tokens), tokens);
  }
  // Forgets all but the store, like a restart.
  void Forget() {
    conversations_->WaitForStores();
    conversations_.emplace(*db_, &*engine_, ConversationOptions{});
    prompts_.emplace(&*engine_, &*conversations_);
  }
  Prompt PromptOf(const char* tenant, const Messages& messages) const {
    Result<Prompt> prompt = prompts_->OfChat(tenant, "", messages);
    EXPECT_THAT(prompt, ::attndb::test::IsOk());
    if (!prompt.ok()) return {};
    EXPECT_EQ(*engine_->Detokenize(prompt->tokens), *engine_->ApplyTemplate(messages));
    return *std::move(prompt);
  }
  // Whether the follow-up to these words begins with the question and these tokens of the reply.
  bool GoesOn(const std::string& words, const Tokens& reply) const {
    const Tokens turn = Turn(reply);
    const Tokens tokens = PromptOf(kMine, Next(words)).tokens;
    return CommonLength(tokens, turn) == turn.size();
  }
  void ExpectUnknown(const Messages& messages) const {
    EXPECT_EQ(PromptOf(kMine, messages).tokens, PromptOf(kTheirs, messages).tokens);
  }
  // Where the follow-up to these words parts from what is stored.
  std::string PartedAfter(const std::string& words) const {
    const Prompt prompt = PromptOf(kMine, Next(words));
    return prompt.parted ? PlaceText(*prompt.parted) : "nowhere";
  }

  std::optional<Prompts> prompts_;
  const Messages asked_ = {{"user", "Hi"}};
  Tokens question_;
};

TEST_F(FollowUpTest, WordsFindTheTokensThatTheyWereSampledAs) {
  const Tokens reply = Bytes(" bo bo");
  EXPECT_FALSE(GoesOn(" bo bo", reply));
  Keep(NewId(), Turn(reply));
  EXPECT_TRUE(GoesOn(" bo bo", reply));
  conversations_->WaitForStores();
  conversations_->DropLive();
  EXPECT_TRUE(GoesOn(" bo bo", reply)) << "from the store";
  Forget();
  EXPECT_TRUE(GoesOn(" bo bo", reply)) << "after a restart";
  EXPECT_EQ(PartedAfter(" bo bo"), "nowhere");
}

// The last token of a reply that is cut is not run. This tokenizer sets a space before a text, but
// not before what is left of one.
TEST_F(FollowUpTest, WordsThatAreLeftFollowTheTokens) {
  Keep(NewId(), Turn(Bytes(" bo")));
  const std::string alone = *engine_->ReplyText(*engine_->Tokenize("y", false, false));
  ASSERT_NE(alone, "y");
  EXPECT_TRUE(GoesOn(" boy", Bytes(" boy")));
  EXPECT_EQ(PartedAfter(" boy"), "nowhere");
}

// A reply may have the words of a template's marks, or of another reply's header.
TEST_F(FollowUpTest, AReplyMayHaveTheWordsOfItsHeader) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Tokens header, engine_->Conversation(asked_, 1));
  const std::string words = " bo" + *engine_->ReplyText(header) + "bi";
  const Tokens reply = Joined(Joined(Bytes(" bo"), header), Bytes("bi"));
  Keep(NewId(), Turn(reply));
  EXPECT_TRUE(GoesOn(words, reply));
}

TEST_F(FollowUpTest, TokensBehindTheWordsAreLeftOut) {
  Keep(NewId(), Turn(Bytes(" bo\n\nStop:")));
  EXPECT_TRUE(GoesOn(" bo", Bytes(" bo")));
  EXPECT_FALSE(GoesOn(" bo", Bytes(" bo\n")));
  EXPECT_EQ(PartedAfter(" bo"), "nowhere") << "all that the client was told is there";
}

TEST_F(FollowUpTest, EachOfSeveralRepliesIsFoundByItsWords) {
  const std::vector<std::string> replies = {" bo bo", " bi", " bo bi", " ca", ""};
  for (const std::string& reply : replies) Keep(NewId(), Turn(Bytes(reply)));
  conversations_->WaitForStores();
  for (const std::string& reply : replies) {
    EXPECT_TRUE(GoesOn(reply, Bytes(reply))) << reply;
    EXPECT_EQ(PartedAfter(reply), "nowhere") << reply;
  }
}

TEST_F(FollowUpTest, TheLastReplyThatIsKnownIsFound) {
  Keep(NewId(), Turn(Bytes(" bo bo")));
  Messages longer = Next(" bo bo");
  longer.push_back({"assistant", "unheard of"});
  longer.push_back({"user", "Well?"});
  const Tokens turn = Turn(Bytes(" bo bo"));
  EXPECT_EQ(CommonLength(PromptOf(kMine, longer).tokens, turn), turn.size());
}

TEST_F(FollowUpTest, AReplyThatEndsTheChatIsFound) {
  Keep(NewId(), Turn(Bytes(" bo bo")));
  const Messages messages = {asked_[0], {"assistant", " bo bo"}};
  const Tokens turn = Turn(Bytes(" bo bo"));
  EXPECT_EQ(CommonLength(PromptOf(kMine, messages).tokens, turn), turn.size());
}

TEST_F(FollowUpTest, OtherQuestionsFindNothing) {
  Keep(NewId(), Turn(Bytes(" bo bo")));
  for (const Messages& messages :
       {Messages{{"user", "Ho"}, {"assistant", " bo bo"}, {"user", "And?"}},
        Messages{{"system", "S"}, {"user", "Hi"}, {"assistant", " bo bo"}, {"user", "And?"}},
        Messages{{"user", "Hi"}, {"user", " bo bo"}, {"user", "And?"}}, Messages{{"user", "Hi"}},
        Messages{{"assistant", " bo bo"}}}) {
    ExpectUnknown(messages);
    EXPECT_FALSE(PromptOf(kMine, messages).parted);
  }
}

TEST_F(FollowUpTest, ATurnThatWasRemovedIsNotFound) {
  const std::string id = NewId();
  Keep(id, Turn(Bytes(" bo bo")));
  Forget();
  EXPECT_TRUE(GoesOn(" bo bo", Bytes(" bo bo")));
  ATTNDB_ASSERT_OK(conversations_->HandleOf(kMine)->Drop(id));
  ExpectUnknown(Next(" bo bo"));
}

// `attndb chat --name ID` goes on with a turn under its id, whose digest is that of the first
// question alone.
TEST_F(FollowUpTest, ATurnWhoseIdHasALongerDialogueSaysTheSame) {
  const std::string id = NewId();
  Keep(id, Turn(Bytes(" bo bo")));
  const Messages next = Next(" bo bo");
  const Tokens again = Joined(*engine_->Conversation(next, 2), Bytes(" bo bo"));
  const Tokens longer = Joined(Turn(Bytes(" bo bo")), again);
  conversations_->Keep(kMine, id, SessionOf(kMine, longer), longer, StoreOptions{.replace = true});
  for (const bool is_live : {true, false}) {
    EXPECT_TRUE(GoesOn(" bo bo", Bytes(" bo bo"))) << is_live;
    EXPECT_FALSE(GoesOn(" bo", Bytes(" bo "))) << is_live;
    Forget();
  }
}

TEST_F(FollowUpTest, OtherWordsPartFromTheReply) {
  Keep(NewId(), Turn(Bytes(" bo is here")));
  EXPECT_TRUE(GoesOn(" bo was here", Bytes(" bo ")));
  EXPECT_FALSE(GoesOn(" bo was here", Bytes(" bo i")));
  EXPECT_EQ(PartedAfter(" bo was here"), "1:4");
  const Prompt prompt = PromptOf(kMine, Next(" bo was here"));
  ASSERT_TRUE(prompt.parted);
  EXPECT_THAT(prompt.parted->asked, ::testing::StartsWith("was here<|im_end|>"));
  EXPECT_EQ(prompt.parted->stored, "is here");
}

TEST_F(FollowUpTest, AReplyIsFoundBehindAnyNumberThatWereDropped) {
  Keep(NewId(), Turn(Bytes(" bo bo")));
  conversations_->WaitForStores();  // It is listed as the oldest.
  std::vector<std::string> dropped;
  const Tokens turn = Turn(Bytes(" ca ca"));
  const Session session = SessionOf(kMine, turn);
  for (int i = 0; i < 65; ++i) {
    dropped.push_back(NewId());
    conversations_->Keep(kMine, dropped.back(), *session.Fork(), turn);
  }
  Forget();
  EXPECT_TRUE(GoesOn(" ca ca", Bytes(" ca ca")));
  EXPECT_FALSE(GoesOn(" bo bo", Bytes(" bo bo"))) << "the last ones are looked at";
  for (const std::string& id : dropped) ATTNDB_ASSERT_OK(conversations_->Drop(kMine, id));
  EXPECT_TRUE(GoesOn(" bo bo", Bytes(" bo bo")));
}

// A model that samples a control token says nothing by it: its reply goes on.
TEST_F(FollowUpTest, ControlTokensInRepliesStay) {
  constexpr TokenId kBegin = 1;
  const Tokens reply = Joined(Bytes(" bo"), Joined({kBegin}, Bytes(" bo")));
  const auto keep = [this](const Prompt& prompt, const Tokens& said) {
    const Tokens turn = Joined(prompt.tokens, said);
    TextLayout text = prompt.text;
    llama::AddReply({prompt.tokens.size(), turn.size()}, &text);
    conversations_->Keep(kMine, NewTurnId(prompt.digest), SessionOf(kMine, turn), turn,
                         std::nullopt, text);
    return turn;
  };
  const auto next = [&](const Messages& messages) {
    return *prompts_->OfChat(kMine, "", messages);
  };
  const Tokens first = keep(next(asked_), reply);
  Messages messages = Next(" bo bo");
  Prompt prompt = next(messages);
  EXPECT_EQ(CommonLength(prompt.tokens, first), first.size());
  EXPECT_FALSE(prompt.parted);
  // They are in an earlier reply then.
  const Tokens second = keep(prompt, Joined(reply, {kBegin}));
  messages.push_back({"assistant", " bo bo"});
  messages.push_back({"user", "So?"});
  prompt = next(messages);
  EXPECT_EQ(CommonLength(prompt.tokens, second), second.size() - 1) << "none behind the words";
  EXPECT_FALSE(prompt.parted);
  messages[3].content = " bo by";
  prompt = next(messages);
  EXPECT_EQ(CommonLength(prompt.tokens, second), second.size() - 2);
  ASSERT_TRUE(prompt.parted);
  EXPECT_EQ(PlaceText(*prompt.parted), "3:5");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prompt told,
                              prompts_->OfReply(kMine, "", std::span(messages).first(2)));
  EXPECT_EQ(told.tokens, first);
}

TEST_F(FollowUpTest, AControlTokenOfUnknownWordsEndsWhatIsReused) {
  constexpr TokenId kBegin = 1;
  Keep(NewId(), Turn(Joined(Bytes(" bo"), Joined({kBegin}, Bytes(" bo")))));
  EXPECT_TRUE(GoesOn(" bo bo", Bytes(" bo")));
  EXPECT_EQ(PartedAfter(" bo bo"), "1:3");
}

// The turns of other models are in the store, too.
TEST_F(FollowUpTest, ATurnOfUnknownIdsIsPassedOver) {
  Keep(NewId(), Turn(Bytes(" bo bo")));
  const auto vocab_size = static_cast<TokenId>(engine_->info().vocab_size);
  conversations_->Keep(kMine, NewId(), SessionOf(kMine, {1}), {1, vocab_size});
  EXPECT_TRUE(GoesOn(" bo bo", Bytes(" bo bo")));
}

TEST_F(FollowUpTest, TheLayoutNamesEachMessage) {
  Keep(NewId(), Turn(Bytes(" bo bo")));
  const Prompt prompt = PromptOf(kMine, Next(" bo bo"));
  ASSERT_EQ(prompt.text.messages.size(), 3u);
  EXPECT_EQ(prompt.text.form, TextForm::kDialogue);
  const TextMessage& reply = prompt.text.messages[1];
  EXPECT_EQ(reply.role, TextRole::kAssistant);
  EXPECT_EQ(reply.tokens.begin, question_.size());
  EXPECT_EQ(reply.tokens.end, question_.size() + 6);
}

// A context has tokens that no text says: the prompt begins with them as they are.
TEST_F(FollowUpTest, AContextWithAnUnknownTokenIsAskedAsItIs) {
  const Tokens context = Joined(Turn(Bytes("bo")), Joined({0}, Bytes("bi")));
  conversations_->Keep(kMine, "context", SessionOf(kMine, context), context, std::nullopt,
                       {TextForm::kDialogue, {}});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prompt prompt,
                              prompts_->OfChat(kMine, "context", Messages{{"user", "And?"}}));
  EXPECT_EQ(CommonLength(prompt.tokens, context), context.size());
  EXPECT_EQ(*engine_->Detokenize(std::span(prompt.tokens).subspan(context.size())),
            "<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n");
}

// The words differ from all replies near the end.
TEST_F(FollowUpTest, LongRepliesAreReadOnce) {
  const std::string same(30'000, 'a');
  for (char last = 'a'; last < 'a' + 16; ++last) {  // Live, though no session holds the tokens.
    const Tokens turn = Turn(Bytes(same + std::string(100, 'b') + last));
    conversations_->Keep(kMine, NewId(), SessionOf(kMine, {1}), turn);
  }
  const Messages next = Next(same + std::string(101, 'c'));
  const double start = ThreadCpuSeconds();
  ATTNDB_ASSERT_OK(prompts_->OfChat(kMine, "", next));
  EXPECT_LT(ThreadCpuSeconds() - start, 1);
}

}  // namespace
}  // namespace attndb::server
