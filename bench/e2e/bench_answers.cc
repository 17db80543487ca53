// Question: does a model say the same, and expect a text as well, when a sparse plan attends?
//
// Method: greedy: a document of almost the model's whole context is stored; each question is
//         answered with 64 tokens under `full` and under the plan, by the same model in the same
//         process. Where the answers part, the gap is how much larger the logit of full's token is
//         than that of the plan's, both under `full` after the same tokens. As a control, `full`
//         answers again after the question was run token by token instead of in one pass: the model
//         rounds its activations, and what that alone changes no plan can be blamed for.
//         Perplexity: pieces of the text that follow one another; the beginning of each is stored,
//         and its end is run in passes of at most 64 tokens, as plans apply only up to
//         dense_query_tokens rows; the mean negative log-likelihood of each next token, in float64.
//
//   bench_answers --text book.txt --questions bench/e2e/questions.txt --store build/bench/store
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "bench/e2e/likelihood.h"
#include "bench/e2e/stored_text.h"
#include "bench/what_ran.h"
#include "engines/llama/llama_engine.h"

namespace attndb::bench {
namespace {

using Json = nlohmann::json;
using llama::LlamaEngine;

constexpr uint32_t kAnswerTokens = 64;
constexpr uint32_t kScoreRows = 64;  // DBOptions::dense_query_tokens.

struct Settings {
  TextOptions text;
  std::string questions_path;
  std::string plan = "auto(error=0.01)";
  uint64_t document_tokens = 8000;
  size_t num_questions = 20;
  size_t num_pieces = 2;
  uint64_t piece_tokens = 8192;
  uint64_t scored_tokens = 2048;  // Last tokens of each piece that are scored.
};

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

Result<std::vector<TokenId>> Answer(LlamaEngine* engine, const DB& db,
                                    std::span<const TokenId> document,
                                    std::span<const TokenId> suffix, const std::string& plan) {
  ATTNDB_ASSIGN_OR_RETURN(Session session, SessionOn(db, *engine, document, plan));
  ATTNDB_ASSIGN_OR_RETURN(
      llama::Generation generation,
      engine->Generate(session, suffix, {.max_tokens = kAnswerTokens, .ignore_end = true}));
  return std::move(generation.tokens);
}

// By `full`, with the question run token by token.
Result<std::vector<TokenId>> ControlAnswer(LlamaEngine* engine, const DB& db,
                                           std::span<const TokenId> document,
                                           std::span<const TokenId> suffix) {
  ATTNDB_ASSIGN_OR_RETURN(Session session, SessionOn(db, *engine, document, "full"));
  for (const TokenId token : suffix.first(suffix.size() - 1)) {
    ATTNDB_RETURN_IF_ERROR(engine->Decode(session, token));
  }
  ATTNDB_ASSIGN_OR_RETURN(
      llama::Generation generation,
      engine->Generate(session, suffix.last(1), {.max_tokens = kAnswerTokens, .ignore_end = true}));
  return std::move(generation.tokens);
}

// How far full's next token lies above the plan's in full's logits, after the tokens that both
// answers share. These are run as they were run for full's answer.
Result<double> LogitGap(LlamaEngine* engine, const DB& db, std::span<const TokenId> document,
                        std::span<const TokenId> suffix, std::span<const TokenId> shared,
                        TokenId of_full, TokenId of_plan) {
  ATTNDB_ASSIGN_OR_RETURN(Session session, SessionOn(db, *engine, document, "full"));
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(session, suffix));
  for (const TokenId token : shared) ATTNDB_RETURN_IF_ERROR(engine->Decode(session, token));
  ATTNDB_ASSIGN_OR_RETURN(const std::span<const float> logits, engine->Logits());
  return static_cast<double>(logits[static_cast<size_t>(of_full)]) -
         static_cast<double>(logits[static_cast<size_t>(of_plan)]);
}

Result<Json> CompareAnswers(LlamaEngine* engine, const DB& db, std::span<const TokenId> document,
                            const std::string& question, const std::string& plan) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> suffix, engine->QuestionSuffix(question));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> full,
                          Answer(engine, db, document, suffix, "full"));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> sparse,
                          Answer(engine, db, document, suffix, plan));
  const auto [at, other] = std::mismatch(full.begin(), full.end(), sparse.begin(), sparse.end());
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> control,
                          ControlAnswer(engine, db, document, suffix));
  Json entry = {
      {"question", question}, {"equal", at == full.end()}, {"control_is_equal", control == full}};
  if (at != full.end() && other != sparse.end()) {
    const std::span<const TokenId> shared(full.begin(), at);
    ATTNDB_ASSIGN_OR_RETURN(entry["logit_gap"],
                            LogitGap(engine, db, document, suffix, shared, *at, *other));
    entry["first_difference"] = at - full.begin();
  }
  return entry;
}

Status MeasureAnswers(const Settings& settings, LlamaEngine* engine, const DB& db,
                      const std::string& text, Json* report) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> prefix, engine->DocumentPrefix("", text));
  ATTNDB_ASSIGN_OR_RETURN(const std::span<const TokenId> document,
                          FirstTokens(prefix, settings.document_tokens, settings.text.text_path));
  ATTNDB_RETURN_IF_ERROR(EnsureStored(engine, db, document));
  ATTNDB_ASSIGN_OR_RETURN(const Session ran, SessionOn(db, *engine, document, settings.plan));
  (*report)["ran"] = RanText(ran.Explain());
  ATTNDB_ASSIGN_OR_RETURN(const std::string asked, ReadTextFile(settings.questions_path));
  std::vector<std::string> questions = Lines(asked);
  questions.resize(std::min(questions.size(), settings.num_questions));
  Json answers = Json::array();
  size_t num_equal = 0;
  size_t num_control_equal = 0;
  for (const std::string& question : questions) {
    ATTNDB_ASSIGN_OR_RETURN(const Json entry,
                            CompareAnswers(engine, db, document, question, settings.plan));
    num_equal += entry["equal"].get<bool>() ? 1U : 0U;
    num_control_equal += entry["control_is_equal"].get<bool>() ? 1U : 0U;
    std::printf("%s\n", entry.dump().c_str());
    std::fflush(stdout);
    answers.push_back(entry);
  }
  std::printf("%zu of %zu answers of %u tokens are equal; control %zu\n", num_equal,
              questions.size(), kAnswerTokens, num_control_equal);
  (*report)["greedy"] = {{"document_tokens", document.size()},
                         {"answer_tokens", kAnswerTokens},
                         {"num_equal", num_equal},
                         {"num_questions", questions.size()},
                         {"answers", answers}};
  return Status::Ok();
}

// Sum over the last `scored` of `tokens`; the others are stored.
Result<double> ScorePiece(LlamaEngine* engine, const DB& db, std::span<const TokenId> tokens,
                          uint64_t scored, const std::string& plan) {
  const std::span<const TokenId> context = tokens.first(tokens.size() - scored);
  ATTNDB_ASSIGN_OR_RETURN(Session session, SessionOn(db, *engine, context, plan));
  const std::span<const TokenId> rest = tokens.subspan(context.size());
  double sum = 0;
  llama::PrefillOptions options;
  options.on_logits = [&](uint64_t index, std::span<const float> logits) {
    if (index + 1 < rest.size()) sum += NegativeLogLikelihood(logits, rest[index + 1]);
  };
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(session, rest, options));
  return sum;
}

Status MeasurePerplexity(const Settings& settings, LlamaEngine* reader, const DB& db,
                         const std::string& text, Json* report) {
  llama::EngineOptions options = settings.text.Engine();
  options.ubatch_tokens = kScoreRows;
  ATTNDB_ASSIGN_OR_RETURN(LlamaEngine scorer, LlamaEngine::Open(settings.text.model, options));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> all, reader->Tokenize(text, true, false));
  ATTNDB_ASSIGN_OR_RETURN(
      const std::span<const TokenId> tokens,
      FirstTokens(all, settings.num_pieces * settings.piece_tokens, settings.text.text_path));
  double full = 0;
  double sparse = 0;
  for (size_t i = 0; i < settings.num_pieces; ++i) {
    const auto piece = tokens.subspan(i * settings.piece_tokens, settings.piece_tokens);
    ATTNDB_RETURN_IF_ERROR(
        EnsureStored(reader, db, piece.first(piece.size() - settings.scored_tokens)));
    ATTNDB_ASSIGN_OR_RETURN(const double of_full,
                            ScorePiece(&scorer, db, piece, settings.scored_tokens, "full"));
    ATTNDB_ASSIGN_OR_RETURN(const double of_plan,
                            ScorePiece(&scorer, db, piece, settings.scored_tokens, settings.plan));
    full += of_full;
    sparse += of_plan;
    std::fprintf(stderr, "piece %zu of %zu scored\n", i + 1, settings.num_pieces);
  }
  const auto count = static_cast<double>(settings.num_pieces * (settings.scored_tokens - 1));
  const double of_full = std::exp(full / count);
  const double of_plan = std::exp(sparse / count);
  std::printf("perplexity of %.0f tokens: full %.4f, plan %.4f: %+.3f %%\n", count, of_full,
              of_plan, 100 * (of_plan / of_full - 1));
  (*report)["perplexity"] = {{"num_tokens", count},
                             {"context_tokens", settings.piece_tokens - settings.scored_tokens},
                             {"full", of_full},
                             {"plan", of_plan},
                             {"change", of_plan / of_full - 1}};
  return Status::Ok();
}

Status Run(const Settings& settings, Json* report) {
  ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine,
                          LlamaEngine::Open(settings.text.model, settings.text.Engine()));
  ATTNDB_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(settings.text.text_path));
  ATTNDB_ASSIGN_OR_RETURN(
      const DB db, DB::Open(settings.text.store_path, {.num_threads = settings.text.num_threads}));
  *report = ReportHead("answers", settings.text, engine);
  (*report)["plan"] = settings.plan;
  if (settings.num_questions > 0) {
    ATTNDB_RETURN_IF_ERROR(MeasureAnswers(settings, &engine, db, text, report));
  }
  if (settings.num_pieces == 0) return Status::Ok();
  return MeasurePerplexity(settings, &engine, db, text, report);
}

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Answers and perplexity under a plan");
  settings.text.AddTo(&app);
  app.add_option("--questions", settings.questions_path, "a question a line")->required();
  app.add_option("--plan", settings.plan)->capture_default_str();
  app.add_option("--document-tokens", settings.document_tokens)->capture_default_str();
  app.add_option("--num-questions", settings.num_questions, "0: none")->capture_default_str();
  app.add_option("--pieces", settings.num_pieces, "of the text, scored; 0: none")
      ->capture_default_str();
  app.add_option("--piece-tokens", settings.piece_tokens)->capture_default_str();
  app.add_option("--scored-tokens", settings.scored_tokens, "of each piece")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  Json report;
  const Status status = Run(settings, &report);
  return Finish("bench_answers", status, report, settings.text.json_path);
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
