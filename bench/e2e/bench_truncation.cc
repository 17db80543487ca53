// Question: does a session that lost its oldest tokens go on as well as one that was computed
//           again?
//
// Method: parts, each of which writes its figures into the file of --json and leaves those that it
//         finds there of other parts:
//         stream     documents streamed through a window: likelihood of the text after each
//                    truncation, and choices of what follows; named by the window, as stream_2048
//         codes      codes that stand in what is kept, asked for after a truncation
//         edits      pieces that leave in the middle: likelihood of what follows, and codes
//         positions  positions up to a million, with and without Session::Rebase
//         speed      milliseconds of DropOldest and of the token after it
//         stream, codes and edits write after each step, so that a stopped run keeps its figures.
//         stream and edits do not run again what the file has of the same documents. All ways see
//         the same tokens, so that differences are paired.
//         bench/truncation_report.py makes the tables of docs/truncation.md.
//
//   bench_truncation --documents build/bench/truncation --json truncation.json stream codes
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "bench/checked.h"
#include "bench/e2e/stored_text.h"
#include "bench/e2e/truncation_codes.h"
#include "bench/e2e/truncation_edits.h"
#include "bench/e2e/truncation_positions.h"
#include "bench/e2e/truncation_speed.h"
#include "bench/e2e/truncation_stream.h"
#include "bench/e2e/truncation_ways.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/model_file.h"

namespace attndb::bench {
namespace {

using Json = nlohmann::json;
using llama::LlamaEngine;

constexpr std::array kCodeWays = {Way::kFull, Way::kRecompute, Way::kNoSink, Way::kKeep4,
                                  Way::kNaive};
constexpr std::array<int64_t, 3> kPositions = {10'000, 100'000, 1'000'000};
constexpr std::array<uint64_t, 2> kInFront = {4, 500};

struct Settings {
  TextOptions text;  // Without a text of its own.
  std::string folder;
  std::vector<std::string> parts;
  size_t num_documents = 16;
  uint64_t window = 2048;
  uint64_t segments = 0;   // 0: as many as 12,288 tokens have.
  uint64_t choices = 3;    // A segment.
  size_t num_texts = 40;   // With codes.
  size_t num_windows = 2;  // Edits take so many of each document.
  size_t rounds = 15;

  Window WindowTokens() const { return {.tokens = window, .left = window / 2}; }
  uint64_t NumSegments() const {
    return segments > 0 ? segments : (12'288 - window) / (window - window / 2);
  }
};

// The figures of one run, beside those that its file has of other parts.
class Report {
 public:
  Report(const Settings& settings, const LlamaEngine& engine)
      : path_(settings.text.json_path), head_(ReportHead("truncation", settings.text, engine)) {
    std::ifstream file(path_);
    report_ = file ? Json::parse(file, nullptr, false) : Json();
    if (!report_.is_object()) report_ = {{"bench", "truncation"}, {"parts", Json::object()}};
  }

  // The commit and the processor of this run.
  std::string Place() const {
    return head_["commit"].get<std::string>() + " on " + head_["machine"]["cpu"].get<std::string>();
  }
  // What the file has of a part; null if that is nothing.
  Json Part(const std::string& part) const { return report_["parts"].value(part, Json()); }

  void Set(const std::string& part, Json figures) {
    figures["head"] = head_;
    report_["parts"][part] = std::move(figures);
    if (!path_.empty()) std::ofstream(path_) << report_.dump(1) << '\n';
  }

 private:
  const std::string path_;
  Json head_;
  Json report_;
};

Result<std::vector<TokenId>> Document(const Settings& settings, const LlamaEngine& engine,
                                      size_t i) {
  const std::string name = (i < 10 ? "0" : "") + std::to_string(i) + ".txt";
  ATTNDB_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(settings.folder + "/" + name));
  return engine.Tokenize(text, true, false);
}

// What truncation_documents.py wrote down of its documents; null if that is not there.
Json ReadSources(const Settings& settings) {
  std::ifstream file(settings.folder + "/sources.json");
  return file ? Json::parse(file, nullptr, false) : Json();
}

// SHA-256 of a document; empty if the sources do not say.
std::string DocumentHash(const Json& sources, size_t i) {
  return sources.is_array() && i < sources.size() ? sources[i].value("sha256", "") : "";
}

// Whether `entry` has the figures of a way, from a stream of these options.
bool HasWay(const Json& entry, const StreamOptions& options, const std::string& way) {
  const size_t num_choices = options.num_segments * options.choices_per_segment;
  return entry.contains("nll") && entry["nll"].contains(way) &&
         entry["nll"][way].size() == options.num_segments &&
         entry["right"][way].size() == num_choices;
}

// Runs the ways that `entry` lacks.
class DocumentStreams {
 public:
  DocumentStreams(const Settings& settings, const StreamOptions& options, const DB* db,
                  LlamaEngine* engine)
      : settings_(settings), options_(options), db_(db), engine_(engine) {}

  // `written` is called after each way.
  Status Run(size_t i, const std::string& source, Json* entry,
             const std::function<void()>& written) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> all, Document(settings_, *engine_, i));
    ATTNDB_ASSIGN_OR_RETURN(const std::span<const TokenId> document,
                            FirstTokens(all, TokensOfStream(options_), std::to_string(i)));
    std::map<bool, Session> first;  // By whether keys are stored without RoPE.
    for (const Way way : kTruncations) {
      const std::string name(WayName(way));
      if (HasWay(*entry, options_, name)) continue;
      const bool unrotated = way == Way::kUnrotated;
      if (!first.contains(unrotated)) {
        ATTNDB_ASSIGN_OR_RETURN(Session window,
                                FirstWindow(way, options_, *db_, engine_, document));
        first.emplace(unrotated, std::move(window));
      }
      ATTNDB_ASSIGN_OR_RETURN(Session session, first.at(unrotated).Fork());
      ATTNDB_ASSIGN_OR_RETURN(const StreamResult result, RunStream(way, options_, *db_, engine_,
                                                                   document, std::move(session)));
      (*entry)["nll"][name] = result.segment_nll;
      (*entry)["right"][name] = result.chosen_right;
      (*entry)["measured"][name] = source;
      written();
      const double sum = std::accumulate(result.segment_nll.begin(), result.segment_nll.end(), 0.0);
      std::printf("document %zu, %-9s %.4f nats a token\n", i, name.c_str(),
                  sum / static_cast<double>(result.segment_nll.size()));
      std::fflush(stdout);
    }
    return Status::Ok();
  }

 private:
  const Settings& settings_;
  const StreamOptions& options_;
  const DB* const db_;
  LlamaEngine* const engine_;
};

Status RunStreams(const Settings& settings, const DB& db, LlamaEngine* engine, Report* report) {
  const StreamOptions options = {.window = settings.WindowTokens(),
                                 .num_segments = settings.NumSegments(),
                                 .choices_per_segment = settings.choices};
  const std::string part = "stream_" + std::to_string(settings.window);
  Json figures = {{"window", options.window.tokens},
                  {"left", options.window.left},
                  {"document_tokens", TokensOfStream(options) - options.choice_tokens - 1},
                  {"choice_tokens", options.choice_tokens},
                  {"documents", Json::array()}};
  Json before = report->Part(part);
  const bool goes_on =
      before.is_object() && std::ranges::all_of(figures.items(), [&](const auto& item) {
        return item.key() == "documents" || before[item.key()] == item.value();
      });
  if (goes_on) figures["documents"] = before["documents"];
  const std::string source = report->Place();
  const Json sources = ReadSources(settings);
  DocumentStreams streams(settings, options, &db, engine);
  for (size_t i = 0; i < settings.num_documents; ++i) {
    const std::string hash = DocumentHash(sources, i);
    Json& documents = figures["documents"];
    if (i == documents.size()) documents.push_back(Json::object());
    if (documents[i].value("sha256", "") != hash) documents[i] = {{"sha256", hash}};
    ATTNDB_RETURN_IF_ERROR(
        streams.Run(i, source, &documents[i], [&] { report->Set(part, figures); }));
  }
  return Status::Ok();
}

Status RunCodes(const Settings& settings, const DB& db, LlamaEngine* engine, Report* report) {
  const Window window = settings.WindowTokens();
  Json figures = {{"window", window.tokens}, {"left", window.left}};
  for (size_t i = 0; i < settings.num_texts; ++i) {
    const size_t number = i % settings.num_documents;
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> document,
                            Document(settings, *engine, number));
    const uint64_t begin = i / settings.num_documents * window.tokens;
    ATTNDB_ASSIGN_OR_RETURN(const CodeText text, MakeCodeText(*engine, window, document, begin, i));
    ATTNDB_ASSIGN_OR_RETURN(const auto said, AskCodes(text, kCodeWays, window, db, engine));
    for (size_t w = 0; w < kCodeWays.size(); ++w) {
      Json& all = figures["right"][std::string(WayName(kCodeWays[w]))];
      for (const bool right : said[w]) all.push_back(right);
      std::printf("codes %zu, %-9s %td of %zu\n", i, WayName(kCodeWays[w]).data(),
                  std::count(said[w].begin(), said[w].end(), true), said[w].size());
    }
    std::fflush(stdout);
    report->Set("codes", figures);
  }
  return Status::Ok();
}

// The entry of `entries` that has the same members as `key`, or one that was added for it.
Json& EntryOf(const Json& key, Json* entries) {
  for (Json& entry : *entries) {
    if (std::ranges::all_of(key.items(), [&](const auto& item) {
          return entry.value(item.key(), Json()) == item.value();
        })) {
      return entry;
    }
  }
  return entries->emplace_back(key);
}

// Scores a window of each document, then a second one.
Status ScoreWindows(const Settings& settings, const DB& db, LlamaEngine* engine, Report* report,
                    Json* figures) {
  const Window window = settings.WindowTokens();
  const Json sources = ReadSources(settings);
  for (uint64_t begin = 0; begin < 2 * window.tokens * settings.num_windows;
       begin += 2 * window.tokens) {
    for (size_t i = 0; i < settings.num_documents; ++i) {
      Json& entry =
          EntryOf({{"sha256", DocumentHash(sources, i)}, {"begin", begin}}, &(*figures)["windows"]);
      if (entry.contains("nll")) continue;
      ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> document, Document(settings, *engine, i));
      ATTNDB_ASSIGN_OR_RETURN(
          const auto nll, ScoreEdits(window, document, begin, (*figures)["scored"], db, engine));
      entry["measured"] = report->Place();
      for (size_t p = 0; p < kPieces.size(); ++p) {
        const std::string kind(PiecesName(kPieces[p]));
        std::printf("document %zu, %s:", i, kind.c_str());
        for (size_t w = 0; w < kEditWays.size(); ++w) {
          const std::string way(EditWayName(kEditWays[w]));
          entry["nll"][kind][way] = nll[p][w];
          std::printf(" %s %.4f", way.c_str(), nll[p][w]);
        }
        std::printf(" nats a token\n");
      }
      std::fflush(stdout);
      report->Set("edits", *figures);
    }
  }
  return Status::Ok();
}

Status AskCodesOfEdits(const Settings& settings, const DB& db, LlamaEngine* engine, Report* report,
                       Json* figures) {
  const Window window = settings.WindowTokens();
  const Json sources = ReadSources(settings);
  for (size_t i = 0; i < settings.num_texts; ++i) {
    const size_t number = i % settings.num_documents;
    const uint64_t begin = i / settings.num_documents * window.tokens;
    Json& entry = EntryOf({{"sha256", DocumentHash(sources, number)}, {"begin", begin}},
                          &(*figures)["texts"]);
    if (entry.contains("right")) continue;
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> document,
                            Document(settings, *engine, number));
    ATTNDB_ASSIGN_OR_RETURN(const CodeText text, MakeCodeText(*engine, window, document, begin, i));
    ATTNDB_ASSIGN_OR_RETURN(const auto said, AskEditedCodes(text, window, db, engine));
    entry["measured"] = report->Place();
    for (size_t w = 0; w < kEditWays.size(); ++w) {
      entry["right"][std::string(EditWayName(kEditWays[w]))] = said[w];
      std::printf("codes %zu, %-9s %td of %zu\n", i, EditWayName(kEditWays[w]).data(),
                  std::count(said[w].begin(), said[w].end(), true), said[w].size());
    }
    std::fflush(stdout);
    report->Set("edits", *figures);
  }
  return Status::Ok();
}

Status RunEdits(const Settings& settings, const DB& db, LlamaEngine* engine, Report* report) {
  constexpr uint64_t kScored = 512;
  Json figures = {{"window", settings.window},
                  {"scored", kScored},
                  {"windows", Json::array()},
                  {"texts", Json::array()}};
  const Json before = report->Part("edits");
  if (before.is_object() && before.value("window", uint64_t{0}) == settings.window &&
      before.value("scored", uint64_t{0}) == kScored) {
    figures["windows"] = before.value("windows", Json::array());
    figures["texts"] = before.value("texts", Json::array());
  }
  ATTNDB_RETURN_IF_ERROR(ScoreWindows(settings, db, engine, report, &figures));
  return AskCodesOfEdits(settings, db, engine, report, &figures);
}

Status RunPositions(const Settings& settings, const DB& db, Report* report) {
  const TempFolder folder("attndb_truncation_model");
  const std::string path = folder.path() + "/float32.gguf";
  ATTNDB_ASSIGN_OR_RETURN(const std::string model, llama::ResolveModel(settings.text.model));
  ATTNDB_RETURN_IF_ERROR(WriteFloat32Model(model, path));
  Json figures;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    llama::EngineOptions options = settings.text.Engine();
    options.kv_dtype = dtype;
    options.cache_dir = folder.path();
    ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, LlamaEngine::Open(path, options));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, Document(settings, engine, 0));
    ATTNDB_ASSIGN_OR_RETURN(const auto results, ComparePositions(kPositions, tokens, db, &engine));
    const std::string name = dtype == DType::kFloat32 ? "f32" : "f16";
    for (const PositionsResult& result : results) {
      figures[name].push_back({{"first_position", result.first_position},
                               {"rebased_max", result.rebased_max},
                               {"own_angles_max", result.own_angles_max},
                               {"rebased_mean", result.rebased_mean},
                               {"own_angles_mean", result.own_angles_mean}});
      std::printf("%s at %lld: rebased %.2g, own angles %.2g\n", name.c_str(),
                  static_cast<long long>(result.first_position), result.rebased_max,
                  result.own_angles_max);
    }
  }
  report->Set("positions", figures);
  return Status::Ok();
}

Json Stats(const SampleStats& stats) {
  return {{"median", stats.median}, {"mad", stats.mad}, {"count", stats.count}};
}

Status RunSpeed(const Settings& settings, const DB& db, LlamaEngine* engine, Report* report) {
  Json figures = Json::array();
  for (const uint64_t keep_first : kInFront) {
    ATTNDB_ASSIGN_OR_RETURN(const TruncationSpeed speed,
                            MeasureTruncation(keep_first, settings.rounds, db, engine));
    figures.push_back({{"keep_first", keep_first},
                       {"drop_ms", Stats(speed.drop)},
                       {"next_ms", Stats(speed.next)},
                       {"next_of_plain_ms", Stats(speed.next_of_plain)},
                       {"next_unrotated_ms", Stats(speed.next_unrotated)},
                       {"ratio", Stats(speed.ratio)}});
    std::printf("%llu in front: drop %.3f ms, next token %.2f ms, plain %.2f ms\n",
                static_cast<unsigned long long>(keep_first), speed.drop.median, speed.next.median,
                speed.next_of_plain.median);
  }
  report->Set("speed", {{"runs", figures}});
  return Status::Ok();
}

Status Run(const Settings& settings) {
  const TempFolder folder("attndb_truncation");
  ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine,
                          LlamaEngine::Open(settings.text.model, settings.text.Engine()));
  ATTNDB_ASSIGN_OR_RETURN(const DB db,
                          DB::Open(folder.path(), {.num_threads = settings.text.num_threads}));
  Report report(settings, engine);
  for (const std::string& part : settings.parts) {
    Status status;
    if (part == "stream") status = RunStreams(settings, db, &engine, &report);
    if (part == "codes") status = RunCodes(settings, db, &engine, &report);
    if (part == "edits") status = RunEdits(settings, db, &engine, &report);
    if (part == "positions") status = RunPositions(settings, db, &report);
    if (part == "speed") status = RunSpeed(settings, db, &engine, &report);
    ATTNDB_RETURN_IF_ERROR(status);
  }
  return Status::Ok();
}

int Main(int argc, char** argv) {
  Settings settings;
  CLI::App app("What truncated sessions say, and what truncation costs");
  app.add_option("parts", settings.parts, "what to measure")
      ->required()
      ->check(CLI::IsMember({"stream", "codes", "edits", "positions", "speed"}));
  app.add_option("--documents", settings.folder, "folder of truncation_documents.py")->required();
  app.add_option("--num-documents", settings.num_documents)->capture_default_str();
  app.add_option("--model", settings.text.model, "GGUF file or known name")->capture_default_str();
  app.add_option("--window", settings.window, "tokens")->capture_default_str();
  app.add_option("--segments", settings.segments, "of each document; 0: those of 12,288 tokens")
      ->capture_default_str();
  app.add_option("--choices", settings.choices, "of each segment")->capture_default_str();
  app.add_option("--texts", settings.num_texts, "with codes, ten each")->capture_default_str();
  app.add_option("--windows", settings.num_windows, "of each document, for edits")
      ->capture_default_str();
  app.add_option("--rounds", settings.rounds, "of speed")->capture_default_str();
  app.add_option("--threads", settings.text.num_threads)->capture_default_str();
  app.add_option("--commit", settings.text.commit, "commit that the figures are of");
  app.add_option("--json", settings.text.json_path, "file for the figures");
  CLI11_PARSE(app, argc, argv);
  return Finish("bench_truncation", Run(settings), Json(), "");
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
