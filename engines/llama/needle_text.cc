#include "engines/llama/needle_text.h"

#include <algorithm>
#include <array>
#include <random>
#include <string_view>

namespace attndb::llama {
namespace {

// {N} is the fact's name, {A} its answer.
struct Form {
  std::string_view fact;
  std::string_view same_words;
  std::string_view other_words;
  std::array<std::string_view, 6> answers;
};

constexpr Form kForms[] = {
    {"The telephone of {N} rings in the {A}.",
     "Where does the telephone of {N} ring?",
     "In which room could one call {N}?",
     {"attic", "cellar", "hallway", "garage", "laundry", "pantry"}},
    {"{N} paid the invoice with {A}.",
     "With what did {N} pay the invoice?",
     "How was the bill of {N} settled?",
     {"a cheque", "gold coins", "a credit card", "two cows", "foreign money", "a voucher"}},
    {"The flag of {N} shows {A} on a white field.",
     "What does the flag of {N} show?",
     "Which symbol is painted on the banner of {N}?",
     {"a lion", "three stars", "an anchor", "a green tree", "two swords", "a black bear"}},
    {"{N} learned to play the {A} as a child.",
     "What did {N} learn to play as a child?",
     "Which instrument did {N} practise when young?",
     {"cello", "trumpet", "accordion", "flute", "harp", "drums"}},
    {"In {N} the market is held every {A}.",
     "When is the market held in {N}?",
     "On which day do farmers sell their goods at {N}?",
     {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}},
    {"The ship {N} carries a load of {A}.",
     "What does the ship {N} carry?",
     "Which cargo is on board of {N}?",
     {"timber", "bananas", "coal", "furniture", "wheat", "bicycles"}},
};

constexpr std::string_view kBegins[] = {"Bar", "Cal", "Dor", "Fen", "Gal", "Hes", "Ker",
                                        "Lun", "Mor", "Pel", "Ros", "Tal", "Ver", "Zan"};
constexpr std::string_view kMiddles[] = {"a", "e", "i", "o", "u", "ade", "eri", "ino", "oma"};
constexpr std::string_view kEnds[] = {"beck", "dale", "gard", "lin", "mond", "nor",
                                      "ric",  "sen",  "tova", "vik", "wood", "zell"};

constexpr std::string_view kFillers[] = {
    "The weather was mild for most of the week, with a little rain in the evening and a light wind "
    "from the west.",
    "A committee met to discuss the new timetable, but no decision was made before the session "
    "ended.",
    "Readers who want to know more about the history of the region will find a list of books at "
    "the "
    "end of the chapter.",
    "If the value is missing, the function returns the default, and a warning is written to the "
    "log file.",
    "Most of the furniture was moved to another building while the painters worked on the ceiling.",
    "The second part of the report compares the results with those of earlier years and explains "
    "the differences.",
    "Some of the guests had travelled for two days and were glad to rest before the ceremony "
    "began.",
    "An object keeps its type for as long as it exists, although the names that refer to it may "
    "change.",
    "Prices rose slowly during the summer, and shops along the river were busier than anyone had "
    "expected.",
    "To repeat the measurement, clean the surface with water, let it dry, and start again from the "
    "first step.",
};

class Choice {
 public:
  explicit Choice(uint64_t seed) : random_(seed) {}

  // The same on every machine, as std's distributions are not.
  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }
  template <typename Texts>
  std::string Of(const Texts& texts) {
    return std::string(texts[Below(std::size(texts))]);
  }

 private:
  std::mt19937_64 random_;
};

std::string Fill(std::string_view form, const std::string& name, const std::string& answer) {
  std::string text;
  for (size_t i = 0; i < form.size(); ++i) {
    if (form[i] != '{') {
      text += form[i];
      continue;
    }
    text += form[i + 1] == 'N' ? name : answer;
    i += 2;
  }
  return text;
}

}  // namespace

std::vector<Needle> MakeNeedles(size_t num_needles, uint64_t seed) {
  Choice choice(seed);
  std::vector<Needle> needles;
  std::vector<std::string> names;
  while (needles.size() < num_needles) {
    const std::string name = choice.Of(kBegins) + choice.Of(kMiddles) + choice.Of(kEnds) + " " +
                             choice.Of(kBegins) + choice.Of(kEnds);
    if (std::ranges::find(names, name) != names.end()) continue;
    names.push_back(name);
    const size_t i = needles.size();
    const Form& form = kForms[i % std::size(kForms)];
    const std::string answer = choice.Of(form.answers);
    const bool same_words = i / std::size(kForms) % 2 == 0;
    needles.push_back({choice.Of(kFillers), Fill(form.fact, name, answer),
                       Fill(same_words ? form.same_words : form.other_words, name, answer)});
  }
  return needles;
}

}  // namespace attndb::llama
