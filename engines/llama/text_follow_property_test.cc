// Goal:   Follow keeps the most stored tokens that its contract lets it keep, whatever a model or a
//         tokenizer wrote, and the tokens are those of Join where nothing else was stored.
// Method: random prompts over vocabularies of every kind; stored tokens that are a beginning of the
//         prompt's, cut otherwise, joined, changed in one place, or another prompt's. The contract
//         of text_follow.h, written down again for one number of tokens, is asked for each number.
// Replay: ATTNDB_SEED.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/llama/prompt_items.h"
#include "engines/llama/run_joiner.h"
#include "engines/llama/text_follow.h"
#include "engines/llama/text_join.h"
#include "engines/llama/tokenizer.h"
#include "engines/llama/utf8_bytes.h"
#include "engines/llama/vocab_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::llama {
namespace {

using Ids = std::vector<TokenId>;

// A tokenizer, and how the reference sees it.
struct Vocab {
  std::string name;
  ModelPtr model;
  std::unique_ptr<Tokenizer> tokenizer;
  bool changes_texts = false;             // Its tokens are not the text's bytes.
  std::map<std::string, TokenId> pieces;  // The last token that has these bytes.
  std::map<std::string, TokenId> controls;
  std::vector<std::string> strip_right;
  std::vector<std::string> strip_left;
};

Vocab MakeVocab(const VocabMaker& maker, const std::string& name,
                const std::function<void(gguf_context*)>& change) {
  Vocab vocab = {name, maker.Load(change), nullptr, false, {}, {}, {}, {}};
  if (vocab.model == nullptr) return vocab;
  vocab.tokenizer = std::make_unique<Tokenizer>(llama_model_get_vocab(vocab.model.get()));
  for (TokenId id = 0; id < static_cast<TokenId>(vocab.tokenizer->vocab_size()); ++id) {
    vocab.pieces[vocab.tokenizer->Piece(id)] = id;
  }
  vocab.pieces.erase("");
  for (const char* const control : {"<|im_start|>", "<|im_end|>", "<mask>"}) {
    const Ids ids = *vocab.tokenizer->Tokenize(control, false, true);
    if (ids.size() == 1) vocab.controls[control] = ids[0];
  }
  return vocab;
}

std::vector<Vocab> AllVocabs() {
  const VocabMaker maker;
  std::vector<Vocab> vocabs;
  for (const char* const pre : {"smollm", "gpt-2", "llama-bpe", "qwen2", "gpt-4o"}) {
    vocabs.push_back(MakeVocab(maker, pre, [pre](auto* file) { SetPreTokenizer(pre, file); }));
  }
  for (const bool adds_space : {false, true}) {
    vocabs.push_back(MakeVocab(maker, adds_space ? "SentencePiece, space" : "SentencePiece",
                               [=](auto* file) { MakeSentencePiece(adds_space, true, file); }));
  }
  vocabs.push_back(MakeVocab(maker, "WordPiece", MakeWordPiece));
  vocabs.push_back(MakeVocab(maker, "unigram", MakeUnigram));
  vocabs.back().changes_texts = (vocabs.end() - 2)->changes_texts = true;
  vocabs.push_back(MakeVocab(maker, "strips right", StripRight));
  vocabs.push_back(MakeVocab(maker, "strips right, space", [](auto* file) {
    StripRight(file);
    MakeSentencePiece(true, true, file);
  }));
  for (Vocab* const vocab : {&*(vocabs.end() - 2), &vocabs.back()}) {
    vocab->strip_right = {"<|im_start|>", "<|im_end|>"};
  }
  vocabs.push_back(MakeVocab(maker, "strips left", StripLeft));
  vocabs.back().strip_left = {"<mask>"};
  return vocabs;
}

// A prompt as the reference sees it: runs, and the control tokens between them.
struct Runs {
  std::vector<std::string> texts = {""};
  std::vector<TokenId> controls;  // One less than texts.
  std::vector<std::string> names;
};

bool IsOneOf(const std::vector<std::string>& texts, const std::string& text) {
  return std::ranges::find(texts, text) != texts.end();
}

void AddMarkup(const Vocab& vocab, std::string markup, Runs* runs) {
  constexpr char kSpaces[] = " \t\n\v\f\r";
  for (;;) {
    size_t at = std::string::npos;
    std::string name;
    for (const auto& [control, id] : vocab.controls) {
      if (const size_t found = markup.find(control); found < at) {
        at = found;
        name = control;
      }
    }
    std::string text = markup.substr(0, at);
    if (at == std::string::npos) {
      runs->texts.back() += text;
      return;
    }
    if (IsOneOf(vocab.strip_left, name)) text.erase(text.find_last_not_of(kSpaces) + 1);
    runs->texts.back() += text;
    runs->texts.emplace_back();
    runs->controls.push_back(vocab.controls.at(name));
    runs->names.push_back(name);
    markup.erase(0, at + name.size());
    if (IsOneOf(vocab.strip_right, name)) {
      markup.erase(0, std::min(markup.find_first_not_of(kSpaces), markup.size()));
    }
  }
}

Runs RunsOf(const Vocab& vocab, const PromptParts& parts) {
  Runs runs;
  for (const PromptPart& part : parts) {
    AddMarkup(vocab, part.markup, &runs);
    runs.texts.back() += part.content;
  }
  return runs;
}

// Where the rest of a prompt begins: a byte of a run.
struct Rest {
  size_t run = 0;
  size_t byte = 0;
};

// The contract of text_follow.h.
class Reference {
 public:
  Reference(const Vocab& vocab, Runs runs) : vocab_(vocab), runs_(std::move(runs)) {
    for (const std::string& text : runs_.texts) {
      own_ids_.push_back(*vocab_.tokenizer->Tokenize(text, false, false));
    }
  }

  // The rest, if the first `n` of `before` spell a beginning.
  std::optional<Rest> RestBehind(const Ids& before, size_t n) const {
    const Ids begin = vocab_.tokenizer->BeginOfText();
    if (n == 0) return Rest{};
    if (!begin.empty() && before[0] != begin[0]) return std::nullopt;
    size_t run = 0;
    for (size_t first = begin.size();; ++run) {
      size_t end = first;
      while (end < n && !vocab_.tokenizer->IsControl(before[end])) ++end;
      const Ids ids(before.begin() + static_cast<std::ptrdiff_t>(first),
                    before.begin() + static_cast<std::ptrdiff_t>(end));
      const bool ends = end == before.size() || vocab_.tokenizer->IsControl(before[end]);
      const std::optional<size_t> byte = SpelledBytes(ids, run, ends);
      if (!byte) return std::nullopt;
      if (end == n) return Rest{run, *byte};
      const bool is_whole = *byte == runs_.texts[run].size();
      if (!is_whole || run == runs_.controls.size() || before[end] != runs_.controls[run]) {
        return std::nullopt;
      }
      first = end + 1;
    }
  }

  std::pair<size_t, Rest> MostSpelled(const Ids& before) const {
    for (size_t n = before.size();; --n) {
      if (const auto rest = RestBehind(before, n)) return {n, *rest};
    }
  }

  bool IsSpelledWhole(const Ids& tokens) const {
    const auto rest = RestBehind(tokens, tokens.size());
    return rest && rest->run == runs_.controls.size() && rest->byte == runs_.texts.back().size();
  }

  // The tokens of the rest behind the first `n` of `before`.
  Ids JoinBehind(const Ids& before, size_t n, const Rest& rest, bool keeps_before) const {
    const JoinOptions options = {.keeps_before = keeps_before, .limits = {}};
    RunJoiner joiner(*vocab_.tokenizer, std::span(before).first(n), options);
    std::string behind;
    for (size_t i = n; i < before.size() && behind.size() < 64; ++i) {
      if (vocab_.tokenizer->IsControl(before[i])) break;
      behind += vocab_.tokenizer->Piece(before[i]);
    }
    joiner.SetStoredBehind(behind);
    const std::string_view text = runs_.texts[rest.run];
    ATTNDB_EXPECT_OK(joiner.Add({text.substr(rest.byte), std::nullopt, false}));
    for (size_t i = rest.run; i < runs_.controls.size(); ++i) {
      ATTNDB_EXPECT_OK(joiner.Add({runs_.names[i], runs_.controls[i], false}));
      ATTNDB_EXPECT_OK(joiner.Add({runs_.texts[i + 1], std::nullopt, false}));
    }
    return joiner.Finish(0)->tokens;
  }

  // Bytes of all runs, and the control tokens as numbers of their own.
  std::vector<int64_t> Units() const {
    std::vector<int64_t> units;
    for (size_t i = 0; i < runs_.texts.size(); ++i) {
      for (const char c : runs_.texts[i]) units.push_back(static_cast<unsigned char>(c));
      if (i < runs_.controls.size()) units.push_back(1000 + int64_t{runs_.controls[i]});
    }
    return units;
  }

 private:
  // Bytes at the beginning of a run that these tokens spell. `ends`: no more tokens of it are
  // stored.
  std::optional<size_t> SpelledBytes(const Ids& ids, size_t run, bool ends) const {
    const std::string& text = runs_.texts[run];
    std::string bytes;
    bool has_empty = false;
    for (const TokenId id : ids) {
      const std::string piece = vocab_.tokenizer->Piece(id);
      bytes += piece;
      has_empty = has_empty || piece.empty();
    }
    std::vector<std::string> readings = {bytes};
    if (vocab_.tokenizer->adds_space() && bytes.starts_with(' ')) {
      readings.insert(readings.begin(), bytes.substr(1));
    }
    if (has_empty) readings.clear();
    if (ends && IsOneOf(readings, text) && text.empty() == ids.empty()) return text.size();
    if (ends && ids == own_ids_[run]) return text.size();
    for (const std::string& reading : readings) {
      if (!text.starts_with(reading) || (reading.empty() && !ids.empty())) continue;
      const bool ends_char =
          reading.size() == text.size() || ids.empty() || !ContinuesUtf8Char(text[reading.size()]);
      if (ends_char) return reading.size();
    }
    return std::nullopt;
  }

  const Vocab& vocab_;
  const Runs runs_;
  std::vector<Ids> own_ids_;
};

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    size_t num_more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
    if (num_more == 0 && first >= 0x80) return false;
    for (++at; num_more > 0; --num_more, ++at) {
      if (at == text.size() || !ContinuesUtf8Char(text[at])) return false;
    }
  }
  return true;
}

class TextFollowPropertyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { vocabs_ = std::make_unique<std::vector<Vocab>>(AllVocabs()); }
  static void TearDownTestSuite() { vocabs_.reset(); }

  void SetUp() override {
    for (const Vocab& vocab : *vocabs_) ASSERT_NE(vocab.model, nullptr) << vocab.name;
  }

  template <typename T>
  const T& OneOf(const std::vector<T>& all) {
    return all[Below(all.size(), &random_)];
  }

  std::string RandomContent() {
    static const std::vector<std::string> kContents = {"",
                                                       " ",
                                                       "\n",
                                                       " a",
                                                       "a ",
                                                       "<|im_end|>",
                                                       "x<|im_start|>user\n",
                                                       "<mask> b",
                                                       "caf\xC3\xA9",
                                                       "\t ",
                                                       "\xF0\x9F\x98",
                                                       "\x98",
                                                       "  \n  "};
    // Longer than what is searched for a cut, at times.
    if (Below(30, &random_) == 0) return RandomText(&random_, 3000);
    return Below(2, &random_) == 0 ? OneOf(kContents)
                                   : RandomText(&random_, 1 + Below(60, &random_));
  }

  // Texts of a prompt's messages, and their marks.
  struct Prompt {
    std::vector<std::string> markups;
    std::vector<std::string> contents;
    PromptParts Parts() const {
      PromptParts parts;
      for (size_t i = 0; i < markups.size(); ++i) parts.push_back({markups[i], contents[i]});
      return parts;
    }
    bool HasBytesOfNoChar() const { return !std::ranges::all_of(contents, IsUtf8); }
    bool Has(std::string_view part) const {
      return std::ranges::any_of(contents, [part](const std::string& text) {
        return text.find(part) != std::string::npos;
      });
    }
  };
  Prompt RandomPrompt() {
    static const std::vector<std::string> kMarkups = {"<|im_start|>user\n",
                                                      "<|im_end|>\n<|im_start|>assistant\n",
                                                      " [/INST] ",
                                                      "[INST] ",
                                                      "<|im_end|>",
                                                      "\n<|im_end|>  \n",
                                                      " \n<mask> ",
                                                      "",
                                                      "<|im_start|> \n <|im_end|>"};
    Prompt prompt;
    for (size_t i = Below(6, &random_) + 1; i-- > 0;) {
      prompt.markups.push_back(OneOf(kMarkups));
      prompt.contents.push_back(RandomContent());
    }
    return prompt;
  }

  // Cuts some tokens into others of the same bytes, and puts some together.
  Ids CutOtherwise(const Vocab& vocab, const Ids& ids) {
    Ids other;
    for (const TokenId id : ids) {
      const std::string piece = vocab.tokenizer->Piece(id);
      const size_t cut = piece.size() < 2 ? 0 : Below(piece.size(), &random_);
      const auto first = vocab.pieces.find(piece.substr(0, cut));
      const auto second = vocab.pieces.find(piece.substr(cut));
      if (first != vocab.pieces.end() && second != vocab.pieces.end() && Below(2, &random_) == 0) {
        other.push_back(first->second);
        other.push_back(second->second);
        continue;
      }
      const auto both =
          vocab.pieces.find((other.empty() ? "" : vocab.tokenizer->Piece(other.back())) + piece);
      const bool joins = !piece.empty() && !other.empty() && both != vocab.pieces.end() &&
                         !vocab.tokenizer->IsControl(other.back()) && Below(2, &random_) == 0;
      if (joins) other.pop_back();
      other.push_back(joins ? both->second : id);
    }
    return other;
  }

  // Another prompt that begins alike.
  Prompt Changed(Prompt prompt) {
    std::string& content = prompt.contents[Below(prompt.contents.size(), &random_)];
    switch (Below(4, &random_)) {
      case 0:
        content = RandomContent();
        break;
      case 1:
        content.insert(Below(content.size() + 1, &random_), OneOf<std::string>({"q", " ", "文"}));
        break;
      case 2:
        content.erase(Below(content.size() + 1, &random_));
        break;
      default:
        prompt.markups.pop_back();
        prompt.contents.pop_back();
    }
    return prompt;
  }

  Ids RandomStored(const Vocab& vocab, const Prompt& prompt) {
    const Prompt stored = Below(2, &random_) == 0 ? prompt : Changed(prompt);
    Ids ids = JoinText(*vocab.tokenizer, {}, stored.Parts(), {})->tokens;
    if (Below(2, &random_) == 0) ids = CutOtherwise(vocab, ids);
    if (Below(3, &random_) == 0) ids.resize(Below(ids.size() + 1, &random_));
    if (!ids.empty() && Below(8, &random_) == 0) {
      ids[Below(ids.size(), &random_)] =
          static_cast<TokenId>(Below(vocab.tokenizer->vocab_size(), &random_));
    }
    return ids;
  }

  static FollowedText Follow(const Vocab& vocab, const Ids& before, const PromptParts& parts,
                             const FollowOptions& options = {}) {
    const auto items = *ItemsOfParts(*vocab.tokenizer, parts);
    Result<FollowedText> followed = FollowText(*vocab.tokenizer, before, items, options);
    EXPECT_THAT(followed, ::attndb::test::IsOk());
    return followed.ok() ? *std::move(followed) : FollowedText();
  }

  static std::unique_ptr<std::vector<Vocab>> vocabs_;
  std::mt19937_64 random_{test::SeedOr(58)};
};
std::unique_ptr<std::vector<Vocab>> TextFollowPropertyTest::vocabs_;

// The bytes of each content, counted over all items.
std::vector<ByteRange> ContentsOf(const std::vector<PromptItem>& items) {
  std::vector<ByteRange> contents;
  uint64_t at = 0;
  for (const PromptItem& item : items) {
    if (item.is_content) contents.push_back({at, at + item.text.size()});
    at += item.text.size();
  }
  return contents;
}

TEST_F(TextFollowPropertyTest, BehindNothingTheTokensAreThoseOfJoin) {
  for (const Vocab& vocab : *vocabs_) {
    for (int i = 0; i < 30; ++i) {
      const Prompt prompt = RandomPrompt();
      const PromptParts parts = prompt.Parts();
      const std::vector<ByteRange> messages = ContentsOf(*ItemsOfParts(*vocab.tokenizer, parts));
      const JoinedText joined = *JoinText(*vocab.tokenizer, {}, parts, {});
      const FollowedText followed = Follow(vocab, {}, parts, {.messages = messages});
      ASSERT_EQ(followed.joined.tokens, joined.tokens) << vocab.name;
      ASSERT_EQ(followed.joined.contents, joined.contents) << vocab.name;
      EXPECT_EQ(followed.joined.num_kept, 0U);
      EXPECT_FALSE(followed.parted);
      // The reference sees the same prompt.
      const Reference reference(vocab, RunsOf(vocab, parts));
      ASSERT_EQ(reference.JoinBehind({}, 0, {}, false), joined.tokens) << vocab.name;
    }
  }
}

TEST_F(TextFollowPropertyTest, TheMostTokensStayThatSpellTheBeginning) {
  size_t num_kept = 0;
  size_t num_cut_otherwise = 0;
  for (const Vocab& vocab : *vocabs_) {
    SCOPED_TRACE(vocab.name);
    for (int i = 0; i < 80; ++i) {
      const Prompt prompt = RandomPrompt();
      const PromptParts parts = prompt.Parts();
      const Ids before = RandomStored(vocab, prompt);
      const bool keeps_before = Below(4, &random_) == 0;
      const FollowedText followed =
          Follow(vocab, before, parts, {.keeps_before = keeps_before, .messages = {}});
      const Ids& tokens = followed.joined.tokens;
      const Reference reference(vocab, RunsOf(vocab, parts));
      const auto [n, rest] = reference.MostSpelled(before);
      ASSERT_EQ(tokens, reference.JoinBehind(before, n, rest, keeps_before));
      const auto differ = std::ranges::mismatch(tokens, before);
      EXPECT_EQ(followed.joined.num_kept, static_cast<uint64_t>(differ.in1 - tokens.begin()));
      EXPECT_TRUE(!keeps_before || followed.joined.num_kept >= n);
      // Where tokens are bytes, they are those of the prompt.
      const bool has_other_bytes =
          vocab.changes_texts || prompt.HasBytesOfNoChar() || prompt.Has("▁");
      EXPECT_TRUE(has_other_bytes || reference.IsSpelledWhole(tokens));
      num_kept += followed.joined.num_kept;
      num_cut_otherwise += tokens == JoinText(*vocab.tokenizer, {}, parts, {})->tokens ? 0U : 1U;
    }
  }
  EXPECT_GT(num_kept, 5'000U) << "the test compares something";
  EXPECT_GT(num_cut_otherwise, 100U) << "tokens of a reply stay";
}

// Whether the tokens of the last run are those that the tokenizer makes of what they say. Where it
// looks ahead, those of a text that was cut off may be others.
bool HasOwnEnd(const Vocab& vocab, const Ids& ids) {
  size_t first = ids.size();
  while (first > 0 && !vocab.tokenizer->IsControl(ids[first - 1])) --first;
  const Ids last(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
  std::string text = *vocab.tokenizer->ReplyText(last);
  if (vocab.tokenizer->adds_space() && text.starts_with(' ')) text.erase(0, 1);
  return *vocab.tokenizer->Tokenize(text, false, false) == last;
}

TEST_F(TextFollowPropertyTest, BehindTheTokenizersOwnTokensTheyAreThoseOfTheWhole) {
  size_t num_compared = 0;
  for (const Vocab& vocab : *vocabs_) {
    SCOPED_TRACE(vocab.name);
    for (int i = 0; i < 80; ++i) {
      const Prompt prompt = RandomPrompt();
      const PromptParts parts = prompt.Parts();
      const Runs runs = RunsOf(vocab, parts);
      const bool may_be_a_replys = std::ranges::any_of(
          runs.texts, [](const std::string& text) { return text.starts_with(' '); });
      if (vocab.tokenizer->adds_space() && may_be_a_replys) continue;
      const Prompt stored = Below(2, &random_) == 0 ? prompt : Changed(prompt);
      Ids before = JoinText(*vocab.tokenizer, {}, stored.Parts(), {})->tokens;
      if (Below(2, &random_) == 0) before.resize(Below(before.size() + 1, &random_));
      if (!HasOwnEnd(vocab, before)) continue;
      const Ids whole = JoinText(*vocab.tokenizer, {}, parts, {})->tokens;
      EXPECT_EQ(Follow(vocab, before, parts).joined.tokens, whole);
      ++num_compared;
    }
  }
  EXPECT_GT(num_compared, 400U);
}

TEST_F(TextFollowPropertyTest, TheyPartAtTheFirstByteThatDiffers) {
  size_t num_parted = 0;
  for (const Vocab& vocab : *vocabs_) {
    const bool adds_or_drops = vocab.changes_texts || vocab.tokenizer->adds_space() ||
                               !vocab.strip_left.empty() || !vocab.strip_right.empty();
    if (adds_or_drops) continue;
    SCOPED_TRACE(vocab.name);
    for (int i = 0; i < 80; ++i) {
      const Prompt stored = RandomPrompt();
      const Prompt prompt = Changed(stored);
      if (prompt.HasBytesOfNoChar() || stored.HasBytesOfNoChar()) continue;
      if (prompt.Has("▁") || stored.Has("▁")) continue;
      const PromptParts parts = prompt.Parts();
      const PromptParts stored_parts = stored.Parts();
      Ids before = JoinText(*vocab.tokenizer, {}, stored_parts, {})->tokens;
      if (Below(2, &random_) == 0) before = CutOtherwise(vocab, before);
      const auto units = Reference(vocab, RunsOf(vocab, parts)).Units();
      const auto stored_units = Reference(vocab, RunsOf(vocab, stored_parts)).Units();
      const auto differ = std::ranges::mismatch(units, stored_units);
      const FollowedText followed = Follow(vocab, before, parts);
      const bool ends = differ.in1 == units.end() || differ.in2 == stored_units.end();
      ASSERT_EQ(followed.parted.has_value(), !ends);
      if (ends) continue;
      ++num_parted;
      uint64_t byte = 0;
      for (auto unit = units.begin(); unit != differ.in1; ++unit) {
        byte += *unit < 1000
                    ? 1
                    : vocab.tokenizer->Detokenize(Ids{static_cast<TokenId>(*unit - 1000)}, true)
                          ->size();
      }
      EXPECT_EQ(followed.parted->prompt_byte, byte);
      const auto items = *ItemsOfParts(*vocab.tokenizer, parts);
      uint64_t begin = 0;
      for (size_t item = 0; item < followed.parted->item; ++item) begin += items[item].text.size();
      EXPECT_EQ(begin + followed.parted->item_byte, byte);
      EXPECT_GE(followed.parted->token, followed.joined.num_kept);
    }
  }
  EXPECT_GT(num_parted, 100U);
}

}  // namespace
}  // namespace attndb::llama
