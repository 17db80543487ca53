// Goal:   text behind text has the ids of the whole text, whoever wrote the parts: of documents, of
//         templates whose marks are words, and behind stored ids. Ids of a model's reply stay.
// Method: a tiny model whose SentencePiece vocabulary sets a space before each text and wants an
//         end behind it, under Llama 2's template; and one without a template. llama.cpp's own
//         tokens of the rendered prompt are the yardstick. Random cuts: text_cuts_test.cc.
#include "engines/llama/text_join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/chat/chat_renderer.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/gguf_test_util.h"
#include "engines/llama/prompt_layout.h"
#include "engines/llama/stored_text.h"
#include "engines/llama/utf8_bytes.h"
#include "engines/llama/window.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

class TextJoinTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<LlamaEngine> engine =
        LlamaEngine::Open(TinyModel("llama_space"), TinyOptions(HookVariant::kRewrite));
    ASSERT_THAT(engine, ::attndb::test::IsOk());
    engine_ = std::make_unique<LlamaEngine>(*std::move(engine));
  }
  static void TearDownTestSuite() { engine_.reset(); }

  static JoinedText Join(const Ids& before, const PromptParts& parts, bool keeps_before = false) {
    Result<JoinedText> joined =
        engine_->Join(before, parts, {.keeps_before = keeps_before, .limits = {}});
    EXPECT_THAT(joined, ::attndb::test::IsOk());
    return joined.ok() ? *std::move(joined) : JoinedText();
  }
  static Ids Text(std::string_view text) { return Join({}, {{"", text}}).tokens; }
  // llama.cpp's ids of a whole prompt, without the end-of-text token that it sets behind a text.
  static Ids AtOnce(const std::string& text) {
    Ids ids = *engine_->Tokenize(text, /*add_special=*/true, /*parse_special=*/true);
    EXPECT_FALSE(ids.empty());
    if (!ids.empty()) ids.pop_back();
    return ids;
  }
  static std::string Shown(const Ids& ids) { return *engine_->Detokenize(ids); }

  static std::unique_ptr<LlamaEngine> engine_;
};
std::unique_ptr<LlamaEngine> TextJoinTest::engine_;

TEST_F(TextJoinTest, AWordThatIsAppendedInTwoPartsIsOneWord) {
  const Ids before = Text("The light is unbe");
  const JoinedText joined = Join(before, {{"", "lievable tonight"}});
  EXPECT_EQ(joined.tokens, AtOnce("The light is unbelievable tonight"));
  EXPECT_EQ(Shown(joined.tokens), "The light is unbelievable tonight");
  EXPECT_EQ(joined.num_kept, before.size() - 1) << "the word that goes on, alone";
  ASSERT_EQ(joined.contents.size(), 1U);
  EXPECT_EQ(joined.contents[0].end, joined.tokens.size());
}

TEST_F(TextJoinTest, NoPartGetsASpaceOfItsOwn) {
  for (const auto& [first, second] :
       std::vector<std::pair<std::string, std::string>>{{"The light", " is unbelievable"},
                                                        {"The light ", "is unbelievable"},
                                                        {"The light", "."},
                                                        {"The light is", "\n\nWhy?"},
                                                        {"T", "he"},
                                                        {" The", " light"},
                                                        {"The light  ", "  is"},
                                                        {"\n", "The light"},
                                                        {"The caf\xC3", "\xA9"},
                                                        {"xyz0123456789+/xyz", "0123456789"}}) {
    SCOPED_TRACE(first + "|" + second);
    const JoinedText joined = Join(Text(first), {{"", second}});
    EXPECT_EQ(joined.tokens, AtOnce(first + second));
    EXPECT_EQ(Shown(joined.tokens), first + second);
  }
}

TEST_F(TextJoinTest, AStoredTextEndsWithNoEndOfText) {
  const Ids ids = Text("The light");
  EXPECT_EQ(ids, AtOnce("The light"));
  EXPECT_EQ(*engine_->Detokenize(ids, /*render_special=*/true), "<s>The light");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText raw, DocumentText(*engine_, true, "", "The light"));
  EXPECT_EQ(raw.tokens, ids);
  EXPECT_EQ(raw.text.ToString(), "raw");
}

TEST_F(TextJoinTest, APromptHasTheIdsOfTheRenderedTemplate) {
  const std::string document = "The light is unbelievable";
  StoredContext stored;
  stored.layout = PromptLayout::kDocument;
  ATTNDB_ASSERT_OK_AND_ASSIGN(stored.tokens, engine_->DocumentPrefix("", document));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText asked,
                              QuestionBehind(*engine_, stored, "Why is the light"));
  const std::vector<ChatMessage> messages = {{"user", document + "\n\nWhy is the light"}};
  EXPECT_EQ(asked.tokens, AtOnce(*engine_->ApplyTemplate(messages)));
  EXPECT_EQ(asked.num_kept, stored.tokens.size());

  std::vector<ChatMessage> turns = {{"system", "The light"}, {"user", "Why"}, {"assistant", "is"}};
  turns.push_back({"user", " tonight "});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Ids all, engine_->Conversation(turns));
  EXPECT_EQ(all, AtOnce(*engine_->ApplyTemplate(turns)));
  // The next turn behind what the template has up to the reply.
  const std::vector<ChatMessage> first = {turns[0], turns[1]};
  StoredContext dialogue;
  dialogue.layout = PromptLayout::kDialogue;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Ids header, engine_->Conversation(first));
  dialogue.tokens = Join(header, {{"", "is"}}, /*keeps_before=*/true).tokens;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText next,
                              QuestionBehind(*engine_, dialogue, " tonight "));
  EXPECT_EQ(next.tokens, all);
}

TEST_F(TextJoinTest, TheIdsOfAReplyStay) {
  // A model may spell a word as the tokenizer does not.
  Ids spelled = Text("The light");
  for (const char letter : std::string(" unbe")) {
    const Ids anchored = Text(std::string("x") + letter);
    spelled.push_back(anchored.back());
  }
  ASSERT_EQ(Shown(spelled), "The light unbe");
  ASSERT_NE(spelled, Text("The light unbe"));
  const JoinedText joined = Join(spelled, {{"", "lievable tonight"}});
  EXPECT_EQ(joined.num_kept, spelled.size());
  EXPECT_TRUE(std::equal(spelled.begin(), spelled.end(), joined.tokens.begin()));
  EXPECT_EQ(Shown(joined.tokens), "The light unbelievable tonight");
  // Also where they could change.
  const Ids before = Text("The light is unbe");
  const JoinedText kept = Join(before, {{"", "lievable tonight"}}, /*keeps_before=*/true);
  EXPECT_EQ(kept.num_kept, before.size());
  EXPECT_EQ(Shown(kept.tokens), "The light is unbelievable tonight");
  EXPECT_NE(kept.tokens, AtOnce("The light is unbelievable tonight"));
}

TEST_F(TextJoinTest, ContentsAreKnownByTheirTokens) {
  const std::vector<ChatMessage> messages = {
      {"user", "The light"}, {"assistant", "is"}, {"user", "Why"}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptParts parts, engine_->ConversationParts(messages));
  const JoinedText joined = Join({}, parts);
  ASSERT_EQ(joined.contents.size(), 4U);
  std::vector<std::string> texts;
  for (const TokenRange& range : joined.contents) {
    const auto ids = std::span(joined.tokens).subspan(range.begin, range.end - range.begin);
    texts.push_back(*engine_->ReplyText(ids));
  }
  EXPECT_THAT(texts, ElementsAre(" The light", "is", " Why", ""));
  EXPECT_EQ(joined.contents.back().begin, joined.tokens.size());
}

TEST_F(TextJoinTest, StoredIdsCanBeComparedWithTheWholeText) {
  const Ids whole = AtOnce("The light is unbelievable tonight");
  EXPECT_EQ(*engine_->TokenizedAtOnce(whole), whole);
  const Ids pieces =
      Join(Text("The light is unbe"), {{"", "lievable tonight"}}, /*keeps_before=*/true).tokens;
  ASSERT_NE(pieces, whole);
  EXPECT_EQ(*engine_->TokenizedAtOnce(pieces), whole);
  const std::vector<ChatMessage> messages = {{"user", "Why"}, {"assistant", "is"}, {"user", "The"}};
  const Ids prompt = *engine_->Conversation(messages);
  EXPECT_EQ(*engine_->TokenizedAtOnce(prompt), prompt);
}

// Messages are short runs between control tokens, none of which has a piece's bytes.
TEST_F(TextJoinTest, ManyShortTextsAreStoppedAndCountedAsOneLongTextIs) {
  const std::vector<ChatMessage> messages(100, {"user", "The light is unbelievable tonight"});
  const PromptParts parts = *engine_->ConversationParts(messages);
  const Ids all = Join({}, parts).tokens;
  for (const size_t num_looks : {0U, 1U, 3U}) {
    size_t num_looked = 0;
    TokenizeLimits limits = {.piece_bytes = 400};
    limits.progress = [&](uint64_t, uint64_t) { return ++num_looked <= num_looks; };
    EXPECT_THAT(engine_->Join({}, parts, {.limits = limits}),
                FailsWith(StatusCode::kCancelled, HasSubstr("bytes of the text")));
    EXPECT_EQ(num_looked, num_looks + 1);
    num_looked = 0;
    EXPECT_THAT(engine_->TokenizedAtOnce(all, limits),
                FailsWith(StatusCode::kCancelled, HasSubstr("bytes of the text")));
    EXPECT_EQ(num_looked, num_looks + 1);
  }
  const TokenizeLimits limits = {.max_tokens = 300, .piece_bytes = 400};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const JoinedText some, engine_->Join({}, parts, {.limits = limits}));
  EXPECT_GT(some.tokens.size(), limits.max_tokens);
  EXPECT_LT(some.tokens.size(), all.size() / 2);
  EXPECT_TRUE(std::ranges::equal(some.tokens, std::span(all).first(some.tokens.size())));
  EXPECT_EQ(some.contents.size(), parts.size());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Ids again, engine_->TokenizedAtOnce(all, limits));
  EXPECT_GT(again.size(), limits.max_tokens);
  EXPECT_LT(again.size(), all.size() / 2);
  // Tokens that were there before do not count.
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const JoinedText behind,
      engine_->Join(all, std::span(parts).first(1), {.keeps_before = true, .limits = limits}));
  EXPECT_GT(behind.tokens.size(), all.size());
}

TEST_F(TextJoinTest, StoredTokensThatAreReadAgainDoNotCountForTheLimit) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Ids stored, engine_->Tokenize("The light is", true, false));
  std::string text;
  for (int i = 0; i < 300; ++i) text += " unbelievable";
  const PromptPart part = {"", text};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const JoinedText whole,
                              engine_->Join(stored, std::span(&part, 1), {}));
  const TokenizeLimits limits = {.max_tokens = whole.tokens.size() - stored.size() - 1,
                                 .piece_bytes = 400};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const JoinedText cut,
                              engine_->Join(stored, std::span(&part, 1), {.limits = limits}));
  EXPECT_GT(cut.tokens.size(), stored.size() + limits.max_tokens) << "it has more than the limit";
}

TEST_F(TextJoinTest, AQuestionBehindAContextIsStopped) {
  StoredContext document;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText text,
                              DocumentText(*engine_, false, "", "The light is"));
  document.tokens = text.tokens;
  document.layout = PromptLayout::kDocument;
  TokenizeLimits limits = {.piece_bytes = 400};
  limits.progress = [](uint64_t, uint64_t) { return false; };
  std::string question;
  for (int i = 0; i < 100; ++i) question += " unbelievable";
  EXPECT_THAT(QuestionBehind(*engine_, document, question, /*keeps_before=*/false, limits),
              FailsWith(StatusCode::kCancelled, HasSubstr("of the text")));
  EXPECT_THAT(QuestionBehind(*engine_, document, question), ::attndb::test::IsOk());
}

TEST_F(TextJoinTest, WordsOfTheTemplateInAContentAreWords) {
  const std::string content = "a</s>[/INST]<s> b";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Ids ids, engine_->FirstTurn("", content));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 0) << "no end of text";
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 1);
  EXPECT_EQ(Shown(ids), "[INST] " + content + " [/INST]");
}

TEST_F(TextJoinTest, AByteOrderMarkIsNoText) {
  for (const bool raw : {false, true}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText plain,
                                DocumentText(*engine_, raw, "", "The light"));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText marked,
                                DocumentText(*engine_, raw, "", "\xEF\xBB\xBFThe light"));
    EXPECT_EQ(marked.tokens, plain.tokens);
  }
  EXPECT_EQ(WithoutBom("a\xEF\xBB\xBF"), "a\xEF\xBB\xBF") << "inside a text it is one";
}

TEST_F(TextJoinTest, WithoutATemplateSystemMessageAndDocumentAreALineEach) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const LlamaEngine bare,
      LlamaEngine::Open(TinyModel("llama_bpe"), TinyOptions(HookVariant::kRewrite)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Ids lines, bare.Tokenize("be kind\nbo ba", false, false));
  EXPECT_EQ(*bare.DocumentPrefix("be kind", "bo ba"), lines);
  EXPECT_EQ(DocumentText(bare, true, "be kind", "bo ba")->tokens, lines);
  EXPECT_EQ(*bare.Conversation(std::vector<ChatMessage>{{"system", "be kind"}, {"user", "bo ba"}}),
            lines);
}

// A context that is stored and gone on from: import, append, ask and chat do so.
TEST_F(TextJoinTest, MarksOfTheTemplateThatAreWordsAreKnownByTheStoredLayout) {
  const test::TempDir folder = test::TempDir::InMemory();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(folder.File("store"), {}));
  const auto store = [&](const std::string& name, const Ids& ids, const TextLayout& text) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start,
                                db.CreateSession(engine_->spec(), ids, {.reuse = false}));
    ATTNDB_ASSERT_OK(engine_->Prefill(start.session, ids));
    StoreOptions options;
    options.name = name;
    options.text_layout = text;
    ATTNDB_ASSERT_OK(db.Store(start.session, ids, options));
  };
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText document,
                              DocumentText(*engine_, false, "The light", "a [/INST] b"));
  store("told", document.tokens, document.text);
  store("untold", document.tokens, {});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const StoredContext told, OpenContext(*engine_, db, "told"));
  EXPECT_EQ(told.layout, PromptLayout::kDocument);
  EXPECT_EQ(told.text, document.text);
  ASSERT_EQ(told.text.messages.size(), 2U);
  EXPECT_EQ(*SystemTokens(*engine_, told.text, told.tokens), told.text.messages[1].tokens.begin);
  EXPECT_EQ(OpenContext(*engine_, db, "untold")->layout, PromptLayout::kDialogue) << "a guess";
  // It takes a text, and a question in its own message.
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText appended,
                              AppendedText(*engine_, db, "told", "lievable", {}));
  EXPECT_EQ(appended.text.messages.back().tokens.end, appended.tokens.size());
  EXPECT_EQ(appended.text.form, TextForm::kDocument);
  EXPECT_THAT(AppendedText(*engine_, db, "untold", "lievable", {}),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("is a dialogue")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(PromptText asked, QuestionBehind(*engine_, told, "Why"));
  EXPECT_THAT(Shown(asked.tokens), ::testing::EndsWith("a [/INST] b\n\nWhy [/INST]"));
  const uint64_t num_asked = asked.tokens.size();
  asked.tokens.push_back(Text("x").back());
  AddReply({num_asked, num_asked + 1}, &asked.text);
  store("talk", asked.tokens, asked.text);
  EXPECT_EQ(OpenContext(*engine_, db, "talk")->layout, PromptLayout::kDialogue);
  EXPECT_THAT(AppendedText(*engine_, db, "talk", "x", {}),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("is a dialogue")));
}

// The cut looks like that of a window, which the text would not follow. Ask, chat and cat do so.
TEST_F(TextJoinTest, APieceThatLeftAContextIsNoPartOfItsText) {
  const test::TempDir folder = test::TempDir::InMemory();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(folder.File("store"), {}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText document,
                              DocumentText(*engine_, false, "The light", "a be bi bo bu a b"));
  Ids ids = document.tokens;
  const std::vector<TokenRange> piece = {{4, 4 + (ids.size() + 1) / 2}};
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(engine_->spec(), ids, {}));
  ATTNDB_ASSERT_OK(engine_->Prefill(start.session, ids));
  ATTNDB_ASSERT_OK(LeaveOut(piece, &start.session));
  const Ids reply = Text("x y");
  ATTNDB_ASSERT_OK(engine_->Prefill(start.session, reply));
  StoreOptions options;
  options.name = "cut";
  options.text_layout = document.text;
  options.text_layout.left_out = piece;
  AddReply({ids.size(), ids.size() + reply.size()}, &options.text_layout);
  ids.insert(ids.end(), reply.begin(), reply.end());
  ATTNDB_ASSERT_OK(db.Store(start.session, ids, options));

  ATTNDB_ASSERT_OK_AND_ASSIGN(const StoredContext left, OpenContext(*engine_, db, "cut"));
  EXPECT_EQ(left.tokens, Without(ids, piece));
  EXPECT_EQ(left.layout, PromptLayout::kDialogue);
  EXPECT_THAT(left.text.left_out, ElementsAre());
  EXPECT_EQ(left.text.messages.back().tokens.end, left.tokens.size());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const StoredContext whole, OpenWholeContext(*engine_, db, "cut"));
  EXPECT_EQ(whole.tokens, ids);
  EXPECT_EQ(whole.text, options.text_layout);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const StoredText shown, TextOf(*engine_, db, "cut", true));
  EXPECT_EQ(shown.text, *engine_->Detokenize(left.tokens, /*render_special=*/true));
  EXPECT_EQ(shown.num_tokens, ids.size());
  // The next prompt reuses the tokens before the first piece, and no cut.
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText asked, QuestionBehind(*engine_, left, "Why"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SessionStart again,
                              CreateSessionIn({}, db, engine_->spec(), asked.tokens, {}));
  EXPECT_EQ(again.session.num_tokens(), CommonPrefix(asked.tokens, ids));
  EXPECT_THAT(again.session.cuts(), ElementsAre());
}

// A model whose file has this chat template.
Result<LlamaEngine> EngineWithTemplate(const test::TempDir& folder, const std::string& source) {
  GgufParts parts = GgufParts::Of(*GgufFile::Open(TinyModel("llama_space")));
  parts.Set("tokenizer.chat_template", GgufText(source));
  const std::string path = folder.File("template.gguf");
  std::ofstream(path, std::ios::binary) << parts.Bytes();
  return LlamaEngine::Open(path, TinyOptions(HookVariant::kRewrite));
}

TEST_F(TextJoinTest, ATemplateThatLlamaCppHasNoFormOfIsRenderedAsJinja) {
  if (FindChatProgram().empty()) GTEST_SKIP() << "built on a llama.cpp without `common`";
  const test::TempDir folder = test::TempDir::InMemory();
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const LlamaEngine engine,
      EngineWithTemplate(folder,
                         "{{ bos_token }}{% for m in messages %}({{ m.role }}) {{ m.content }}\n"
                         "{% endfor %}{% if add_generation_prompt %}(assistant){% endif %}"));
  EXPECT_TRUE(engine.KnowsChatTemplate());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText document,
                              DocumentText(engine, false, "Be brief", "The light"));
  const auto shown = [&](const std::vector<TokenId>& tokens) {
    return *engine.Detokenize(tokens, /*render_special=*/true);
  };
  EXPECT_EQ(shown(document.tokens), "<s>(system) Be brief\n(user) The light");
  EXPECT_EQ(document.text.form, TextForm::kDocument);
  const StoredContext stored = {document.tokens, document.text, PromptLayout::kDocument};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText asked, QuestionBehind(engine, stored, "Why"));
  EXPECT_EQ(shown(asked.tokens), "<s>(system) Be brief\n(user) The light\n\nWhy\n(assistant)");
}

TEST_F(TextJoinTest, AnUnknownTemplateIsRefusedWithTheWayOut) {
  const test::TempDir folder = test::TempDir::InMemory();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaEngine engine,
                              EngineWithTemplate(folder, "{{ nobody.knows(this) }}"));
  EXPECT_TRUE(engine.info().has_chat_template);
  EXPECT_FALSE(engine.KnowsChatTemplate());
  EXPECT_THAT(DocumentText(engine, false, "", "The light"),
              FailsWith(StatusCode::kUnsupported, HasSubstr("--raw")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptText raw, DocumentText(engine, true, "", "The light"));
  EXPECT_EQ(*LayoutOf(engine, {}, raw.tokens), PromptLayout::kRaw) << "it can be asked";
}

}  // namespace
}  // namespace attndb::llama
