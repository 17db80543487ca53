// Goal:   a document that was imported yesterday is asked today without running one of its tokens,
//         with each chat template that llama.cpp's sources have.
// Method: the document's tokens, and the prompt that asks about it with the date of the import and
//         with that of the next day; SmolLM2's vocabulary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "engines/llama/chat_template.h"
#include "engines/llama/text_follow.h"
#include "engines/llama/text_join.h"
#include "engines/llama/tokenizer.h"
#include "engines/llama/vocab_test_util.h"
#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr char kDocument[] = "The cat is grey.\nIt sleeps on the \"roof\".";
constexpr char kQuestion[] = "Which colour has the cat?";
constexpr int64_t kDay = 86'400;

class TemplateMatrixTest : public ::testing::Test {
 protected:
  static std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(ATTNDB_CHAT_TEMPLATES)) {
      if (entry.path().extension() == ".jinja") names.push_back(entry.path().stem());
    }
    return names;
  }

  static ChatTemplate Load(const std::string& name) {
    std::ifstream file(std::filesystem::path(ATTNDB_CHAT_TEMPLATES) / (name + ".jinja"));
    const std::string source(std::istreambuf_iterator<char>(file), {});
    return ChatTemplate({.source = source, .bos = "<s>", .eos = "</s>"});
  }

  // Makes the prompt of a day behind the stored tokens.
  Result<FollowedText> Ask(const ChatTemplate& chat, const std::vector<TokenId>& stored,
                           int64_t now) const {
    const ChatMessage message = {"user", std::string(kDocument) + "\n\n" + kQuestion};
    ChatOptions options;
    options.now = now;
    ATTNDB_ASSIGN_OR_RETURN(const RenderedPrompt prompt,
                            chat.Render(tokenizer_, std::span(&message, 1), options));
    return FollowText(tokenizer_, stored, prompt.items, {});
  }

  Result<std::vector<TokenId>> Joined(const std::vector<TokenId>& before,
                                      const PromptParts& parts) const {
    ATTNDB_ASSIGN_OR_RETURN(JoinedText text, JoinText(tokenizer_, before, parts, {}));
    return std::move(text.tokens);
  }

  const ModelPtr model_ = VocabMaker().Load([](gguf_context*) {});
  const Tokenizer tokenizer_{llama_model_get_vocab(model_.get())};
};

TEST_F(TemplateMatrixTest, ADocumentIsAskedADayLaterWithoutRunningIt) {
  std::set<std::string> refused;
  std::set<std::string> dated;
  const std::vector<std::string> names = Names();
  ASSERT_GE(names.size(), 60u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const ChatTemplate chat = Load(name);
    const int64_t today = std::time(nullptr);
    const Result<PromptParts> parts = chat.DocumentParts("", kDocument);
    if (!parts.ok()) {
      EXPECT_THAT(parts, FailsWith(StatusCode::kUnsupported, _));
      refused.insert(name + ": " + std::string(parts.status().message()));
      continue;
    }
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<TokenId> stored, Joined({}, *parts));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const FollowedText same, Ask(chat, stored, today));
    EXPECT_EQ(same.joined.num_kept, stored.size());
    ATTNDB_ASSERT_OK_AND_ASSIGN(const PromptParts question, chat.QuestionParts(kQuestion));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<TokenId> asked, Joined(stored, question));
    EXPECT_EQ(asked, same.joined.tokens);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const FollowedText later, Ask(chat, stored, today + kDay));
    if (later.joined.num_kept < stored.size()) dated.insert(name);
  }
  EXPECT_THAT(refused, IsEmpty());
  // These show the date in front of the document: a context keeps the date that it was made with.
  EXPECT_THAT(dated, UnorderedElementsAre(
                         "Apertus-8B-Instruct", "Mistral-Small-3.2-24B-Instruct-2506",
                         "fireworks-ai-llama-3-firefunction-v2",
                         "ibm-granite-granite-3.3-2B-Instruct", "meta-llama-Llama-3.1-8B-Instruct",
                         "meta-llama-Llama-3.2-3B-Instruct", "meta-llama-Llama-3.3-70B-Instruct",
                         "muse-glimmer", "openai-gpt-oss-120b", "upstage-Solar-Open-100B"));
}

}  // namespace
}  // namespace attndb::llama
