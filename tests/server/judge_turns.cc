// What plain llama.cpp says of the replies that a server gave: judge_turns STORE, with a turn's id
// in each line of stdin. Prints a line of JSON for each:
//
//   {"id", "tokens", "text", "replies", "num_judged", "num_differing", "largest_gap", "own_spread"}
//
// Method: the tokens of the turn's context are run once, whole, by plain llama.cpp. A token of a
//         reply differs if the model prefers another one after the same tokens; its gap is how far
//         it lies below, in logits. The engine's own spread is the largest difference from that run
//         that the same logits show in runs that round otherwise: with one token a pass, with
//         eight, and without flash attention, as `ask --check` has it.
//         The last token of a reply is not judged: it may be one of words that were cut.
// Prints "text": the whole context, control tokens too. "replies": the texts of all its replies.
#include <algorithm>
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

// Logits after each token, in passes of so many tokens.
Result<llama::LogitRows> RunPlain(const llama::LlamaEngine& engine, std::span<const TokenId> tokens,
                                  size_t tokens_a_pass, bool flash_attention = true) {
  llama::PlainOptions options;
  options.flash_attention = flash_attention;
  options.num_tokens = static_cast<uint32_t>((tokens.size() + 255) / 256 * 256);
  options.kv_dtype = engine.spec().kv_dtype;
  ATTNDB_ASSIGN_OR_RETURN(const auto plain, engine.OpenPlain(options));
  llama::LogitRows rows;
  for (size_t begin = 0; begin < tokens.size(); begin += tokens_a_pass) {
    const auto pass = tokens.subspan(begin, std::min(tokens_a_pass, tokens.size() - begin));
    ATTNDB_RETURN_IF_ERROR(plain->Run(pass, [&rows](uint64_t, std::span<const float> logits) {
      rows.emplace_back(logits.begin(), logits.end());
    }));
  }
  return rows;
}

class Judge {
 public:
  Judge(const llama::LlamaEngine* engine, const DB* db) : engine_(engine), db_(db) {}

  Result<Json> Of(const std::string& id) const {
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

  Status Compare(const Tokens& tokens, const std::vector<Range>& replies, Json* json) const {
    ATTNDB_ASSIGN_OR_RETURN(const llama::LogitRows rows, RunPlain(*engine_, tokens, tokens.size()));
    uint64_t num_judged = 0;
    uint64_t num_differing = 0;
    double largest = 0;
    for (const Range& reply : replies) {
      for (size_t i = reply.begin; i + 1 < reply.end; ++i, ++num_judged) {
        const std::vector<float>& logits = rows[i - 1];
        const double gap = double{*std::ranges::max_element(logits)} -
                           double{logits[static_cast<size_t>(tokens[i])]};
        if (gap > 0) ++num_differing;
        largest = std::max(largest, gap);
      }
    }
    (*json)["num_judged"] = num_judged;
    (*json)["num_differing"] = num_differing;
    (*json)["largest_gap"] = largest;
    (*json)["own_spread"] = nullptr;  // Asked for where it matters: it takes four times as long.
    if (num_differing == 0) return Status::Ok();
    double spread = 0;
    const auto widen = [&](const llama::LogitRows& others) {
      for (const Range& reply : replies) {
        for (size_t i = reply.begin; i < reply.end; ++i) {
          spread = std::max(spread, llama::RowDifference(rows[i - 1], others[i - 1]));
        }
      }
    };
    for (const size_t tokens_a_pass : {1u, 8u}) {
      ATTNDB_ASSIGN_OR_RETURN(const llama::LogitRows others,
                              RunPlain(*engine_, tokens, tokens_a_pass));
      widen(others);
    }
    ATTNDB_ASSIGN_OR_RETURN(const llama::LogitRows others,
                            RunPlain(*engine_, tokens, tokens.size(), false));
    widen(others);
    (*json)["own_spread"] = spread;
    return Status::Ok();
  }

  const llama::LlamaEngine* const engine_;
  const DB* const db_;
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
  const Judge judge(&*engine, &*db);
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
