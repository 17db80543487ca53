// Goal:   a reply in the format of any of llama.cpp's chat templates is read as what it says, whole
//         or in pieces: reasoning, content, calls of tools. A client that gets it in pieces has, at
//         the end, what a client has that gets it whole.
// Method: each template renders a chat in which the assistant says something known. The text of
//         that message is a reply in the template's own format. ReplyReader reads it character by
//         character, cut at each character, and with faults that a seed draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/llama/chat/chat_renderer.h"
#include "server/chat/reply_reader.h"
#include "server/json.h"
#include "testing/seed.h"
#include "testing/test_size.h"
#include "tests/server/known_replies.h"

namespace attndb::server {
namespace {

constexpr std::string_view kMark = "attndb7c1econtent\xC2\xA4";  // No template has it.
// The last message is what the assistant says, if it is not null.
llama::ChatInput InputOf(const Json& said, std::optional<bool> thinks) {
  Json messages = {{{"role", "user"}, {"content", "What is the weather?"}}};
  if (!said.is_null()) messages.push_back(said);
  llama::ChatInput input;
  input.messages = messages.dump();
  input.options.tools = kKnownTools;
  input.options.parallel_tool_calls = true;
  input.options.enable_thinking = thinks;
  input.options.now = 1772366400;
  input.add_generation_prompt = said.is_null();
  return input;
}

// A reply in a template's own format.
struct KnownText {
  llama::ReplyForm form;
  std::string text;  // What the model writes.
  Said said;         // What the template shows of what the assistant said.
};

// nullopt: the template does not show a reply that a model could write behind the prompt.
std::optional<KnownText> TextOf(llama::ChatRenderer* renderer, const Said& said,
                                std::optional<bool> thinks) {
  const Result<llama::ChatPlan> asked = renderer->Render(InputOf(nullptr, thinks));
  const Json mark = {{"role", "assistant"}, {"content", kMark}};
  const Result<std::string> marked = renderer->RenderText(InputOf(mark, thinks));
  const Result<std::string> shown = renderer->RenderText(InputOf(MessageOf(said), thinks));
  if (!asked.ok() || !marked.ok() || !shown.ok()) return std::nullopt;
  const size_t at = marked->find(kMark);
  if (at == std::string::npos || !shown->starts_with(asked->prompt)) return std::nullopt;
  std::string_view text = std::string_view(*shown).substr(asked->prompt.size());
  std::string_view end = std::string_view(*marked).substr(at + kMark.size());
  while (!end.empty() && text.ends_with(end.back())) {
    text.remove_suffix(1);
    end.remove_suffix(1);
  }
  // Calls may have an end of their own, which is no part of a reply's text.
  for (const std::string_view own :
       {"<|eom", "<|call", "<|calls", "<\xEF\xBD\x9Chy_eos:opensource\xEF\xBD\x9C>",
        "<|tool_response>"}) {
    if (text.ends_with(own)) text.remove_suffix(own.size());
  }
  KnownText known = {.form = asked->form, .text = std::string(text), .said = said};
  for (std::string* part : {&known.said.reasoning, &known.said.content}) {
    if (text.find(*part) == std::string_view::npos) part->clear();
  }
  for (const auto& [name, arguments] : said.calls) {
    if (text.find(name) == std::string_view::npos) return std::nullopt;
  }
  return known;
}

// Templates set spaces around what an assistant said.
std::string Trimmed(std::string text) {
  const size_t end = text.find_last_not_of(" \n");
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text.substr(std::min(text.find_first_not_of(" \n"), text.size()));
}

// Adds up what it is told.
struct Sum final : ReplyWriter {
  void OnStart(const TurnStart& /*start*/) override {}
  void OnDelta(const ReplyDelta& delta) override {
    EXPECT_FALSE(delta.empty());
    reasoning += delta.reasoning;
    content += delta.content;
    for (const CallDelta& call : delta.calls) {
      ASSERT_LE(call.index, calls.size());
      if (call.index == calls.size()) calls.push_back({call.id, call.name, ""});
      calls[call.index].arguments += call.arguments;
    }
  }
  void OnEnd(const TurnEnd& /*end*/, size_t num_calls) override {
    EXPECT_EQ(num_calls, calls.size());
    has_ended = true;
  }
  void OnError(const Status& status) override { error = status; }

  std::string Text() const {
    std::string text = error.ok() ? "" : "error: " + error.ToString();
    text += "[" + reasoning + "]" + content;
    for (const llama::ReadCall& call : calls) text += "\n" + call.name + call.arguments;
    return text;
  }

  std::string reasoning, content;
  std::vector<llama::ReadCall> calls;
  bool has_ended = false;
  Status error;
};

// Returns the client's text without the spaces around it.
Said SaidOf(const Sum& sum) {
  Said said = {.reasoning = Trimmed(sum.reasoning), .content = Trimmed(sum.content), .calls = {}};
  for (const llama::ReadCall& call : sum.calls) {
    Json arguments = Json::parse(call.arguments, nullptr, /*allow_exceptions=*/false);
    if (arguments.is_discarded()) arguments = "no JSON: " + call.arguments;
    said.calls.emplace_back(call.name, std::move(arguments));
  }
  return said;
}

// The beginnings of whole characters, and the text's end.
std::vector<size_t> Borders(std::string_view text) {
  std::vector<size_t> borders;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) borders.push_back(i);
  }
  borders.push_back(text.size());
  return borders;
}

// Some of these, in their order.
std::vector<size_t> SomeOf(const std::vector<size_t>& borders, std::mt19937_64* random) {
  std::vector<size_t> some;
  std::ranges::sample(borders, std::back_inserter(some), 6, *random);
  return some;
}

// The text, cut or with a fault: whole characters that are missing, twice, or others.
std::string Faulty(const std::string& text, std::mt19937_64* random) {
  const std::vector<size_t> borders = Borders(text);
  const auto draw = [&] { return borders[(*random)() % borders.size()]; };
  const size_t a = draw(), b = draw();
  const size_t begin = std::min(a, b), end = std::max(a, b);
  switch ((*random)() % 4) {
    case 0:
      return text.substr(0, a);
    case 1:
      return text.substr(0, begin) + text.substr(end);
    case 2:
      return text.substr(0, end) + text.substr(begin);
    default:
      return text.substr(0, a) + "{\"<" + text.substr(a);
  }
}

std::vector<std::string> Templates() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ATTNDB_TEMPLATES)) {
    if (entry.path().extension() == ".jinja") names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

// In a long run a reply is cut at each character, too.
std::vector<std::string> Faults(const std::string& text, std::mt19937_64* random) {
  std::vector<std::string> faults;
  for (uint64_t i = 0; i < test::Sized(4, 13); ++i) faults.push_back(Faulty(text, random));
  if (test::Sized(0, 1) == 1) {
    for (const size_t end : Borders(text)) faults.push_back(text.substr(0, end));
  }
  return faults;
}

class ReplyFormatsTest : public testing::TestWithParam<std::string> {
 protected:
  ReplyFormatsTest() : renderer_(llama::FindChatProgram(), {Source(), "<s>", "</s>"}) {}

  static std::string Source() {
    std::ifstream file(std::string(ATTNDB_TEMPLATES "/") + GetParam(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // The template's place among all of them.
  static size_t Number() {
    const std::vector<std::string> names = Templates();
    return static_cast<size_t>(std::ranges::find(names, GetParam()) - names.begin());
  }

  // In what way of thinking a template shows a reply is its own affair.
  std::optional<KnownText> Known(const Said& said) {
    for (const std::optional<bool> thinks :
         {std::optional<bool>(), std::optional<bool>(false), std::optional<bool>(true)}) {
      if (std::optional<KnownText> known = TextOf(&renderer_, said, thinks)) return known;
    }
    return std::nullopt;
  }

  // Returns the client's reading of a reply that comes in pieces which end at `cuts`.
  std::shared_ptr<Sum> Read(const llama::ReplyForm& form, std::string_view text,
                            std::span<const size_t> cuts, const TurnEnd& end = {}) {
    auto sum = std::make_shared<Sum>();
    ReplyReader reader(
        {.read = [&](std::string_view read,
                     bool is_partial) { return renderer_.Read(form, read, is_partial); },
         .run_later = [](const std::function<void()>& work) { work(); },
         .streams = !cuts.empty()},
        sum);
    reader.OnStart({});
    size_t begin = 0;
    for (const size_t cut : cuts) {
      if (cut > begin) reader.OnText(text.substr(begin, cut - begin));
      begin = cut;
    }
    if (begin < text.size()) reader.OnText(text.substr(begin));
    reader.OnEnd(end);
    return sum;
  }

  llama::ChatRenderer renderer_;
};

TEST_P(ReplyFormatsTest, KnownRepliesAreReadAsTheySay) {
  size_t num_known = 0;
  for (const auto& [name, said] : KnownReplies(Number())) {
    const std::optional<KnownText> known = Known(said);
    if (!known) continue;
    ++num_known;
    const std::shared_ptr<Sum> whole = Read(known->form, known->text, {});
    const std::string read = ToText(SaidOf(*whole)), wanted = ToText(known->said);
    const std::string texts = name + ": " + Json(known->text).dump() + "\n" + whole->Text();
    if (IsUnreadable(GetParam(), {name, said})) {
      EXPECT_NE(read, wanted) << "llama.cpp reads it now: " << texts;
    } else {
      EXPECT_EQ(read, wanted) << texts;
    }
  }
  EXPECT_EQ(num_known == 0, ShowsNoReply(GetParam()));
}

TEST_P(ReplyFormatsTest, PiecesAddUpToTheWhole) {
  for (const auto& [name, said] : KnownReplies(Number())) {
    const std::optional<KnownText> known = Known(said);
    if (!known) continue;
    const std::shared_ptr<Sum> whole = Read(known->form, known->text, {});
    const std::shared_ptr<Sum> sum = Read(known->form, known->text, Borders(known->text));
    const bool may_fail = IsUnreadable(GetParam(), {name, said}) || MayNotStream({name, said});
    if (!sum->error.ok() && may_fail) continue;
    EXPECT_EQ(sum->Text(), whole->Text()) << name << ": " << Json(known->text).dump();
  }
}

// A reply with a fault may show in its middle something else than at its end. Then the client gets
// an error, and never two halves of different readings. A limit that ends the reply at the same
// place changes nothing in what it says.
TEST_P(ReplyFormatsTest, FaultyRepliesEndAsTheWholeOrWithAnError) {
  std::mt19937_64 random(test::SeedOr(17));
  TurnEnd limit;
  limit.finish = llama::FinishReason::kMaxTokens;
  for (const auto& [name, said] : KnownReplies(Number())) {
    const std::optional<KnownText> known = Known(said);
    if (!known) continue;
    for (const std::string& text : Faults(known->text, &random)) {
      const std::shared_ptr<Sum> whole = Read(known->form, text, {});
      const std::shared_ptr<Sum> sum = Read(known->form, text, SomeOf(Borders(text), &random));
      EXPECT_NE(whole->has_ended, !whole->error.ok());
      const std::shared_ptr<Sum> cut = Read(known->form, text, {}, limit);
      EXPECT_EQ(cut->Text(), whole->Text()) << name << ": " << Json(text).dump();
      EXPECT_NE(sum->has_ended, !sum->error.ok());
      if (sum->error.ok()) {
        EXPECT_EQ(sum->Text(), whole->Text()) << name << ": " << Json(text).dump();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReplyFormatsTest, testing::ValuesIn(Templates()),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) {
                             if (isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace attndb::server
