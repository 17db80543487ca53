// Goal:   a writer gets a reply's parts in order, each once, however the text was cut; what can't
//         be read ends as it should; no call of the listener waits.
// Method: a reader in a few lines for <think>, text and <tool_call>; work that the test runs when
//         it wants to, or a thread that the test holds up.
#include "server/chat/reply_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/chat/open_brackets.h"
#include "server/json.h"

namespace attndb::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kThink = "<think>", kThought = "</think>";
constexpr std::string_view kCall = "<tool_call>", kCalled = "</tool_call>";

// `text` up to `mark`, which both go from *text. A beginning of the mark at the end waits.
std::string Until(std::string_view mark, std::string_view* text, bool* is_found) {
  const size_t at = text->find(mark);
  *is_found = at != std::string_view::npos;
  size_t end = *is_found ? at : text->size();
  for (size_t n = mark.size() - 1; !*is_found && n > 0; --n) {
    if (text->ends_with(mark.substr(0, n))) {
      end = text->size() - n;
      break;
    }
  }
  std::string before(text->substr(0, end));
  text->remove_prefix(*is_found ? at + mark.size() : text->size());
  return before;
}

// <think>...</think>text<tool_call>NAME JSON</tool_call>...
Result<llama::ReadReply> ReadMarks(std::string_view text, bool is_partial) {
  llama::ReadReply reply;
  const std::string_view all = text;
  bool is_found = false;
  if (is_partial && kThink.starts_with(text)) return reply;
  if (text.starts_with(kThink)) {
    text.remove_prefix(kThink.size());
    reply.reasoning = Until(kThought, &text, &is_found);
  }
  reply.content = Until(kCall, &text, &is_found);
  while (is_found) {
    const std::string call = Until(kCalled, &text, &is_found);
    if (!is_found && !is_partial) return Status::InvalidArgument("no end");
    const size_t space = call.find(' ');
    llama::ReadCall read = {.name = call.substr(0, space)};
    if (space != std::string::npos) read.arguments = call.substr(space + 1);
    if (read.arguments.starts_with("?")) return Status::InvalidArgument("no JSON");
    reply.calls.push_back(std::move(read));
    (void)Until(kCall, &text, &is_found);
  }
  if (!is_partial && all.ends_with("<tool")) return Status::InvalidArgument("no end");
  return reply;
}

// Writes down what it is told, and adds it up.
struct RecordingWriter final : ReplyWriter {
  void OnStart(const TurnStart& /*start*/) override { log.emplace_back("start"); }
  void OnChances(std::vector<llama::ReplyToken> tokens) override {
    Enter();
    num_chances += tokens.size();
    log.emplace_back("chances");
    --num_inside;
  }
  void OnDelta(const ReplyDelta& delta) override {
    Enter();
    EXPECT_FALSE(delta.empty());
    EXPECT_TRUE(IsUtf8(delta.content) && IsUtf8(delta.reasoning));
    reasoning += delta.reasoning;
    content += delta.content;
    for (const CallDelta& call : delta.calls) {
      EXPECT_LE(call.index, calls.size());
      EXPECT_EQ(call.index == calls.size(), !call.id.empty()) << "the id comes once, first";
      if (call.index == calls.size()) calls.push_back({.id = call.id, .name = call.name});
      calls[call.index].arguments += call.arguments;
    }
    log.emplace_back("delta");
    --num_inside;
  }
  void OnEnd(const TurnEnd& end, size_t num_calls) override {
    Enter();
    num_thinking = end.num_thinking_tokens;
    EXPECT_EQ(num_calls, calls.size());
    log.emplace_back("end");
    --num_inside;
  }
  void OnError(const Status& status) override {
    Enter();
    error = status;
    log.emplace_back("error");
    --num_inside;
  }
  void Enter() {
    EXPECT_EQ(num_inside++, 0) << "one call at a time";
    EXPECT_FALSE(is_over()) << "the last call was the last";
  }
  bool is_over() const { return !log.empty() && (log.back() == "end" || log.back() == "error"); }
  std::string Text() const {
    std::string text = "[" + reasoning + "]" + content;
    for (const llama::ReadCall& call : calls) text += "|" + call.name + call.arguments;
    return text;
  }

  std::vector<std::string> log;
  std::string reasoning, content;
  std::vector<llama::ReadCall> calls;
  size_t num_chances = 0;
  std::optional<uint64_t> num_thinking;
  Status error;
  std::atomic<int> num_inside = 0;
};

class ReplyReaderTest : public ::testing::Test {
 protected:
  std::unique_ptr<ReplyReader> Reader(ReplyReading reading = {.read = ReadMarks}) {
    writer_ = std::make_shared<RecordingWriter>();
    if (!reading.run_later) {
      reading.run_later = [this](std::function<void()> work) { works_.push_back(std::move(work)); };
    }
    reading.cancel = [this] { ++num_cancels_; };
    auto reader = std::make_unique<ReplyReader>(std::move(reading), writer_);
    reader->OnStart({});
    return reader;
  }
  // Runs what was posted. Returns how many works there were.
  size_t Run() {
    size_t num_run = 0;
    for (; !works_.empty(); ++num_run) {
      const std::function<void()> work = std::move(works_.front());
      works_.pop_front();
      work();
    }
    return num_run;
  }
  // The whole of a reply that comes at once.
  std::string Whole(const std::string& text) {
    const auto reader = Reader();
    reader->OnText(text);
    reader->OnEnd({});
    Run();
    return writer_->Text();
  }

  std::shared_ptr<RecordingWriter> writer_;
  std::deque<std::function<void()>> works_;
  int num_cancels_ = 0;
};

const std::vector<std::string> kReplies = {
    "Hello, w\xC3\xB6rld \xF0\x9F\x98\x80!",
    "",
    "<think>Let me see</think>It is 5 < 7.",
    "<tool_call>get_time {}</tool_call>",
    R"(<think>h\xC3\xA4</think>I look.<tool_call>get {"a":"\u00e4 <tool"}</tool_call>)"
    R"(<tool_call>add {"a":[1,{"b":2}]}</tool_call>)",
};

TEST_F(ReplyReaderTest, WithoutAReaderAllTextIsContentAtOnce) {
  const auto reader = Reader({});
  reader->OnText("<think>a");
  EXPECT_EQ(writer_->Text(), "[]<think>a");
  reader->OnChances({{}, {}});
  reader->OnEnd({});
  EXPECT_THAT(writer_->log, ElementsAre("start", "delta", "chances", "end"));
  EXPECT_THAT(works_, IsEmpty());
}

TEST_F(ReplyReaderTest, ARepliesPartsAreToldApart) {
  EXPECT_EQ(Whole(kReplies[4]),
            R"([h\xC3\xA4]I look.|get{"a":"\u00e4 <tool"}|add{"a":[1,{"b":2}]})");
  EXPECT_THAT(writer_->log, ElementsAre("start", "delta", "end"));
}

TEST_F(ReplyReaderTest, CutAtEachByteTheDeltasAddUpToTheSame) {
  for (const std::string& text : kReplies) {
    const std::string whole = Whole(text);
    for (size_t first = 0; first <= text.size(); ++first) {
      for (const bool reads_between : {false, true}) {
        const auto reader = Reader();
        reader->OnText(text.substr(0, first));
        if (reads_between) Run();
        reader->OnText(text.substr(first));
        if (reads_between) Run();
        reader->OnEnd({});
        Run();
        EXPECT_EQ(writer_->Text(), whole) << first;
        EXPECT_EQ(writer_->log.back(), "end");
      }
    }
    const auto reader = Reader();
    for (const char c : text) {
      reader->OnText(std::string(1, c));
      Run();
    }
    reader->OnEnd({});
    Run();
    EXPECT_EQ(writer_->Text(), whole);
  }
}

TEST_F(ReplyReaderTest, IdsAreMadeOnceAndDiffer) {
  const auto reader = Reader();
  for (const char c : kReplies[4]) {
    reader->OnText(std::string(1, c));
    Run();
  }
  reader->OnEnd({});
  Run();
  ASSERT_EQ(writer_->calls.size(), 2u);
  EXPECT_EQ(writer_->calls[0].id.size(), 32u);
  EXPECT_NE(writer_->calls[0].id, writer_->calls[1].id);
  EXPECT_NE(NewCallId(), NewCallId());
}

TEST_F(ReplyReaderTest, TextsThatWaitAreReadTogether) {
  int num_reads = 0;
  const auto reader = Reader({.read = [&](std::string_view text, bool is_partial) {
    ++num_reads;
    return ReadMarks(text, is_partial);
  }});
  for (int i = 0; i < 10; ++i) reader->OnText("a");
  EXPECT_EQ(works_.size(), 1u) << "one reading is under way";
  Run();
  EXPECT_EQ(num_reads, 1);
  reader->OnText("b");
  reader->OnEnd({});
  Run();
  EXPECT_EQ(num_reads, 2);
  EXPECT_THAT(writer_->log, ElementsAre("start", "delta", "delta", "end"));
}

TEST_F(ReplyReaderTest, AnAnswerThatIsNotStreamedIsReadOnce) {
  int num_reads = 0;
  const auto reader = Reader({.read =
                                  [&](std::string_view text, bool is_partial) {
                                    ++num_reads;
                                    return ReadMarks(text, is_partial);
                                  },
                              .streams = false});
  reader->OnText("<think>a");
  reader->OnChances({{}});
  reader->OnText("</think>b");
  EXPECT_EQ(Run(), 0u);
  reader->OnEnd({});
  Run();
  EXPECT_EQ(num_reads, 1);
  EXPECT_EQ(writer_->Text(), "[a]b");
  EXPECT_EQ(writer_->num_chances, 1u);
}

TEST_F(ReplyReaderTest, ReasoningIsCountedWhereNobodyElseCounts) {
  const auto count = [this](TurnEnd end, const std::string& text) {
    const auto reader = Reader({.read = ReadMarks, .count = [](const std::string& reasoning) {
                                  return uint64_t{reasoning.size()};
                                }});
    reader->OnText(text);
    reader->OnEnd(end);
    Run();
    return writer_->num_thinking;
  };
  EXPECT_EQ(count({.num_tokens = 20}, "<think>Hmm</think>Yes"), 3u);
  EXPECT_EQ(count({.num_tokens = 2}, "<think>Hmm</think>Yes"), 2u) << "no more than there are";
  EXPECT_EQ(count({.num_tokens = 20, .num_thinking_tokens = 7}, "<think>Hmm</think>Yes"), 7u);
  EXPECT_EQ(count({.num_tokens = 20}, "Yes"), std::nullopt);
}

TEST_F(ReplyReaderTest, ChancesComeBeforeTheTextThatTheyAreOf) {
  const auto reader = Reader();
  reader->OnChances({{}, {}});
  reader->OnText("ab");
  Run();
  reader->OnChances({{}});
  reader->OnEnd({});
  Run();
  EXPECT_THAT(writer_->log, ElementsAre("start", "chances", "delta", "chances", "end"));
  EXPECT_EQ(writer_->num_chances, 3u);
}

TEST_F(ReplyReaderTest, AReplyThatHasNotTheFormIsContentAsItIs) {
  EXPECT_EQ(Whole("I call <tool_call>add ?x"), "[]I call <tool_call>add ?x");
  EXPECT_EQ(writer_->log.back(), "end");
  const auto reader = Reader();  // The client has a part of it, which is a beginning of it.
  reader->OnText("I call <tool_call>");
  Run();
  reader->OnText("add ?x");
  Run();
  EXPECT_EQ(writer_->Text(), "[]I call ");
  reader->OnEnd({});
  Run();
  EXPECT_EQ(writer_->Text(), "[]I call <tool_call>add ?x");
  EXPECT_EQ(writer_->log.back(), "end");
}

TEST_F(ReplyReaderTest, AnEndThatContradictsWhatTheClientHasIsAnError) {
  const auto reader = Reader();
  reader->OnText("<think>so</think>");
  Run();
  reader->OnText("<tool_call>add ?x");
  reader->OnEnd({});
  Run();
  EXPECT_EQ(writer_->Text(), "[so]") << "nothing is taken back";
  EXPECT_EQ(writer_->log.back(), "error");
  EXPECT_EQ(writer_->error.code(), StatusCode::kInternal);
}

TEST_F(ReplyReaderTest, AReadingThatSaysLessGivesNothing) {
  const auto reader = Reader({.read = [](std::string_view text, bool /*is_partial*/) {
    llama::ReadReply reply;
    reply.content = text.size() == 2 ? "" : text;
    return Result<llama::ReadReply>(reply);
  }});
  for (const char* const text : {"a", "b", "c"}) {
    reader->OnText(text);
    Run();
  }
  reader->OnEnd({});
  Run();
  EXPECT_EQ(writer_->content, "abc");
  EXPECT_THAT(writer_->log, ElementsAre("start", "delta", "delta", "end"));
}

TEST_F(ReplyReaderTest, AReplyThatWasCutHasTheFormOfABeginning) {
  for (const llama::FinishReason finish :
       {llama::FinishReason::kMaxTokens, llama::FinishReason::kStop}) {
    const auto reader = Reader();
    reader->OnText(R"(<tool_call>add {"a":)");
    reader->OnEnd({.finish = finish});
    Run();
    EXPECT_EQ(writer_->Text(), R"([]|add{"a":)");
    EXPECT_EQ(writer_->log.back(), "end");
  }
}

TEST_F(ReplyReaderTest, AReaderThatCannotReadIsAskedOnceMoreAtTheEnd) {
  std::vector<bool> asked;
  const auto reader = Reader({.read = [&](std::string_view, bool is_partial) {
    asked.push_back(is_partial);
    return Result<llama::ReadReply>(Status::ResourceExhausted("1 s"));
  }});
  for (int i = 0; i < 5; ++i) {
    reader->OnText("a");
    Run();
  }
  reader->OnEnd({});
  Run();
  EXPECT_THAT(asked, ElementsAre(true, false));
  EXPECT_EQ(writer_->error.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(writer_->log, ElementsAre("start", "error"));
}

TEST_F(ReplyReaderTest, AReaderThatThrowsEndsTheReply) {
  const auto reader = Reader({.read = [](std::string_view, bool) -> Result<llama::ReadReply> {
    throw std::runtime_error("a fault");
  }});
  reader->OnText("a");
  Run();
  EXPECT_EQ(writer_->error.code(), StatusCode::kInternal);
  reader->OnText("b");
  reader->OnEnd({});
  Run();
  EXPECT_THAT(writer_->log, ElementsAre("start", "error"));
  EXPECT_EQ(num_cancels_, 1);
}

TEST_F(ReplyReaderTest, TooManyOpenBracketsAreAnErrorAndNothingIsRead) {
  size_t longest = 0;
  const auto reader = Reader({.read = [&](std::string_view text, bool is_partial) {
    longest = std::max(longest, text.size());
    return ReadMarks(text, is_partial);
  }});
  for (size_t i = 0; i < kMaxOpenBrackets; ++i) reader->OnText(i % 2 == 0 ? "[" : "{\"a\":");
  Run();
  reader->OnText("]}");
  reader->OnText("[{");
  Run();
  EXPECT_EQ(writer_->log.back(), "delta") << "so many may be open";
  const size_t before = longest;
  reader->OnText("[");
  Run();
  EXPECT_EQ(longest, before);
  EXPECT_EQ(writer_->error.code(), StatusCode::kInternal);
  EXPECT_THAT(writer_->error.message(), HasSubstr("256 brackets"));
  EXPECT_EQ(num_cancels_, 1) << "nobody waits for the rest";
  reader->OnText("[");
  reader->OnEnd({});
  Run();
  EXPECT_EQ(writer_->log.back(), "error");
}

TEST_F(ReplyReaderTest, BytesThatAreNoTextDoNotReachTheReader) {
  const auto reader = Reader({.read = [](std::string_view text, bool is_partial) {
    EXPECT_TRUE(IsUtf8(std::string(text)));
    return ReadMarks(text, is_partial);
  }});
  reader->OnText(
      "a\xFF"
      "b\xE2\x82");
  Run();
  reader->OnEnd({});
  Run();
  EXPECT_EQ(writer_->content,
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_F(ReplyReaderTest, AnErrorOfTheTurnComesBehindWhatWasRead) {
  const auto reader = Reader();
  reader->OnText("a");
  Run();
  reader->OnText("b");
  reader->OnError(Status::IoError("the disk"));
  Run();
  EXPECT_THAT(writer_->log, ElementsAre("start", "delta", "error"));
  EXPECT_EQ(writer_->error.code(), StatusCode::kIoError);
  EXPECT_EQ(num_cancels_, 0) << "the turn has ended itself";
}

TEST_F(ReplyReaderTest, AClientThatLeavesEndsTheReading) {
  int num_reads = 0;
  auto reader = Reader({.read = [&](std::string_view text, bool is_partial) {
    ++num_reads;
    return ReadMarks(text, is_partial);
  }});
  reader->OnText("a");
  reader.reset();  // The scheduler lets go of the turn.
  Run();
  EXPECT_EQ(num_reads, 0);
  EXPECT_THAT(writer_->log, ElementsAre("start"));
}

TEST_F(ReplyReaderTest, AReplyThatEndsOutlivesItsTurn) {
  auto reader = Reader();
  reader->OnText("a");
  reader->OnEnd({});
  reader.reset();
  Run();
  EXPECT_THAT(writer_->log, ElementsAre("start", "delta", "end"));
}

TEST_F(ReplyReaderTest, AMessageThatIsContinuedIsNotToldAgain) {
  for (const bool streams : {false, true}) {
    const auto reader =
        Reader({.read =
                    [](std::string_view text, bool is_partial) {
                      return ReadMarks("<think>so</think>Once " + std::string(text), is_partial);
                    },
                .streams = streams,
                .continues = true});
    reader->OnText("upon");
    Run();
    reader->OnText(" a<tool_call>add {}</tool_call>");
    reader->OnEnd({});
    Run();
    EXPECT_EQ(writer_->Text(), "[]upon a|add{}");
    EXPECT_EQ(writer_->log.back(), "end");
  }
}

TEST_F(ReplyReaderTest, AContinuedReplyWithoutTheFormIsItsOwnText) {
  const auto reader = Reader(
      {.read = [](std::string_view text,
                  bool is_partial) { return ReadMarks("Once " + std::string(text), is_partial); },
       .streams = false,
       .continues = true});
  reader->OnText("<tool_call>add ?");
  reader->OnEnd({});
  Run();
  EXPECT_EQ(writer_->Text(), "[]<tool_call>add ?");
}

// A reading takes a second, and the scheduler goes on meanwhile.
TEST_F(ReplyReaderTest, ASlowReaderHoldsUpNobody) {
  std::promise<void> begun, go_on, ended;
  std::vector<std::thread> threads;
  threads.reserve(2);  // The first may start the second while it is joined.
  std::atomic<int> num_reads = 0;
  const auto reader = Reader(
      {.read =
           [&](std::string_view text, bool is_partial) {
             if (num_reads++ == 0) {
               begun.set_value();
               go_on.get_future().wait();
             }
             if (!is_partial) ended.set_value();
             return ReadMarks(text, is_partial);
           },
       .run_later = [&](std::function<void()> work) { threads.emplace_back(std::move(work)); }});
  reader->OnText("a");
  begun.get_future().wait();
  for (int i = 0; i < 100; ++i) reader->OnText("b");  // None of these waits.
  reader->OnEnd({});
  ASSERT_EQ(threads.size(), 1u) << "at most one reading is under way";
  go_on.set_value();
  ended.get_future().wait();
  threads[0].join();
  threads[1].join();
  EXPECT_EQ(num_reads, 2);
  EXPECT_EQ(writer_->content, "a" + std::string(100, 'b'));
  EXPECT_EQ(writer_->log.back(), "end");
}

}  // namespace
}  // namespace attndb::server
