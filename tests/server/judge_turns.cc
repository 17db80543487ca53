// What plain llama.cpp says of the replies that a server gave: judge_turns STORE, with a turn's id
// in each line of stdin. Prints a line of JSON for each:
//
//   {"id", "tokens", "text", "replies", "num_judged", "differences": [{"index", "gap"}],
//    "largest_gap", "batch_spread", "own_spread"}
//
// Method: the tokens of the turn's context are run once, whole, by plain llama.cpp. A token of a
//         reply differs if the model prefers another one after the same tokens; its gap is how far
//         it lies below, in logits. A spread is how far apart the gap between the two tokens that
//         decide lies in runs that round otherwise, here or at most over all tokens that were
//         judged: batch_spread with one token a pass, with eight and with all; own_spread with
//         flash attention and without, as `ask --check` has it. Null where no token differs, and
//         where a batch_spread was found that is larger than all gaps so far: nothing is left to be
//         shown there, and runs that round otherwise take four times as long.
//         (One token and eight give equal bits with some kernels of ggml, and then no spread.)
//         The last token of a reply is not judged: it may be one of words that were cut.
// Prints "text": the whole context, control tokens too. "replies": the texts of all its replies.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "attndb/db.h"
#include "attndb/options.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/plain_context.h"
#include "engines/llama/sampler.h"

namespace attndb {
namespace {

using Json = nlohmann::ordered_json;
using Tokens = std::vector<TokenId>;

struct Range {
  size_t begin = 0;
  size_t end = 0;
};

// The tokens of replies: behind each header of the assistant, up to the token that ends a message.
Result<std::vector<Range>> RepliesIn(const llama::LlamaEngine& engine, const Tokens& tokens) {
  const std::vector<llama::ChatMessage> asked = {{"user", "?"}};
  ATTNDB_ASSIGN_OR_RETURN(const Tokens header, engine.Conversation(asked, asked.size()));
  std::vector<Range> replies;
  for (auto at = tokens.begin();;) {
    at = std::search(at, tokens.end(), header.begin(), header.end());
    if (at == tokens.end()) return replies;
    at += static_cast<std::ptrdiff_t>(header.size());
    const auto end = std::find_if(
        at, tokens.end(), [&engine](TokenId token) { return engine.IsEndOfGeneration(token); });
    replies.push_back(
        {static_cast<size_t>(at - tokens.begin()), static_cast<size_t>(end - tokens.begin())});
    at = end;
  }
}

// How plain llama.cpp runs tokens. One way rounds otherwise than another.
struct Way {
  size_t tokens_a_pass = 0;
  bool flash_attention = true;
};
constexpr size_t kAll = SIZE_MAX;
constexpr Way kJudge = {.tokens_a_pass = kAll};
constexpr std::array kOtherBatches = {Way{.tokens_a_pass = 1}, Way{.tokens_a_pass = 8}};
constexpr std::array kOtherKernels = {Way{.tokens_a_pass = kAll, .flash_attention = false}};

// Logits after each token.
Result<llama::LogitRows> RunPlain(const llama::LlamaEngine& engine, std::span<const TokenId> tokens,
                                  const Way& way) {
  llama::PlainOptions options;
  options.flash_attention = way.flash_attention;
  options.num_tokens = static_cast<uint32_t>((tokens.size() + 255) / 256 * 256);
  options.kv_dtype = engine.spec().kv_dtype;
  ATTNDB_ASSIGN_OR_RETURN(const auto plain, engine.OpenPlain(options));
  llama::LogitRows rows;
  for (auto left = tokens; !left.empty();) {
    const auto pass = left.first(std::min(way.tokens_a_pass, left.size()));
    left = left.subspan(pass.size());
    ATTNDB_RETURN_IF_ERROR(plain->Run(pass, [&rows](uint64_t, std::span<const float> logits) {
      rows.emplace_back(logits.begin(), logits.end());
    }));
  }
  return rows;
}

// A token of a reply, and the two that decide there: the model's choice, and the reply's, or the
// next likeliest where that is the model's, too, as `ask --check` has it.
struct Choice {
  size_t index = 0;  // The token's.
  TokenId best = 0;
  TokenId rival = 0;
  bool differs = false;
  double gap = 0;  // In the run that judges.
};

std::vector<Choice> ChoicesOf(const Tokens& tokens, const std::vector<Range>& replies,
                              const llama::LogitRows& rows) {
  std::vector<Choice> choices;
  for (const Range& reply : replies) {
    for (size_t i = reply.begin; i + 1 < reply.end; ++i) {
      const std::vector<float>& logits = rows[i - 1];
      const TokenId best = llama::ArgMax(logits);
      const bool differs = best != tokens[i];
      const TokenId rival = differs ? tokens[i] : llama::RunnerUp(logits, best);
      choices.push_back({i, best, rival, differs, llama::GapOf(logits, best, rival)});
    }
  }
  return choices;
}

class Judge {
 public:
  Judge(const llama::LlamaEngine* engine, const DB* db) : engine_(engine), db_(db) {}

  Result<Json> Of(const std::string& id) {
    ATTNDB_ASSIGN_OR_RETURN(const Tokens tokens, db_->Tokens(id));
    ATTNDB_ASSIGN_OR_RETURN(const auto replies, RepliesIn(*engine_, tokens));
    Json texts = Json::array();
    for (const Range& reply : replies) {
      ATTNDB_ASSIGN_OR_RETURN(const std::string text, engine_->ReplyText(Part(tokens, reply)));
      texts.push_back(text);
    }
    ATTNDB_ASSIGN_OR_RETURN(const std::string text, engine_->Detokenize(tokens, true));
    Json json = {{"id", id}, {"tokens", tokens.size()}, {"text", text}, {"replies", texts}};
    ATTNDB_RETURN_IF_ERROR(Compare(tokens, replies, &json));
    return json;
  }

 private:
  static std::span<const TokenId> Part(const Tokens& tokens, const Range& range) {
    return std::span(tokens).subspan(range.begin, range.end - range.begin);
  }

  Status Compare(const Tokens& tokens, const std::vector<Range>& replies, Json* json) {
    ATTNDB_ASSIGN_OR_RETURN(const llama::LogitRows rows, RunPlain(*engine_, tokens, kJudge));
    const std::vector<Choice> choices = ChoicesOf(tokens, replies, rows);
    (*json)["num_judged"] = choices.size();
    (*json)["differences"] = Json::array();
    (*json)["largest_gap"] = 0.0;
    (*json)["batch_spread"] = nullptr;
    (*json)["own_spread"] = nullptr;
    double largest = 0;
    for (const Choice& choice : choices) {
      if (!choice.differs) continue;
      largest = std::max(largest, choice.gap);
      (*json)["differences"].push_back({{"index", choice.index}, {"gap", choice.gap}});
    }
    (*json)["largest_gap"] = largest;
    largest_gap_ = std::max(largest_gap_, largest);
    const bool differs = !(*json)["differences"].empty();
    if (!differs || largest_gap_ <= batch_spread_) return Status::Ok();
    ATTNDB_ASSIGN_OR_RETURN(const double batches, Spread(tokens, choices, kOtherBatches));
    ATTNDB_ASSIGN_OR_RETURN(const double kernels, Spread(tokens, choices, kOtherKernels));
    batch_spread_ = std::max(batch_spread_, batches);
    (*json)["batch_spread"] = batches;
    (*json)["own_spread"] = kernels;
    return Status::Ok();
  }

  // How far apart a choice's gap lies at most: in the run that judges, and in those of `ways`.
  Result<double> Spread(const Tokens& tokens, const std::vector<Choice>& choices,
                        std::span<const Way> ways) const {
    std::vector<double> least;
    for (const Choice& choice : choices) least.push_back(choice.gap);
    std::vector<double> most = least;
    for (const Way& way : ways) {
      ATTNDB_ASSIGN_OR_RETURN(const llama::LogitRows rows, RunPlain(*engine_, tokens, way));
      for (size_t i = 0; i < choices.size(); ++i) {
        const Choice& choice = choices[i];
        const double gap = llama::GapOf(rows[choice.index - 1], choice.best, choice.rival);
        least[i] = std::min(least[i], gap);
        most[i] = std::max(most[i], gap);
      }
    }
    double spread = 0;
    for (size_t i = 0; i < choices.size(); ++i) spread = std::max(spread, most[i] - least[i]);
    return spread;
  }

  const llama::LlamaEngine* const engine_;
  const DB* const db_;
  // The largest that were found.
  double batch_spread_ = 0;
  double largest_gap_ = 0;
};

int Main(const std::string& store) {
  llama::EngineOptions options;
  options.num_threads = 1;  // Two that wait for each other beside other tests are slower than one.
  const Result<llama::LlamaEngine> engine = llama::LlamaEngine::Open("smollm2", options);
  const Result<DB> db = DB::Open(store, {.read_only = true});
  if (!engine.ok() || !db.ok()) {
    std::cerr << (engine.ok() ? db.status() : engine.status()).message() << "\n";
    return 1;
  }
  Judge judge(&*engine, &*db);
  for (std::string id; std::getline(std::cin, id);) {
    const Result<Json> json = judge.Of(id);
    std::cout << (json.ok() ? *json : Json{{"id", id}, {"error", json.status().message()}}).dump()
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace attndb

int main(int argc, char** argv) {
  if (argc == 2) return attndb::Main(argv[1]);
  std::fprintf(stderr, "usage: judge_turns STORE <ids\n");
  return 2;
}
