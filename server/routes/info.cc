#include "server/routes/info.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/units.h"
#include "server/openai/error.h"
#include "server/openai/text_request.h"
#include "server/openai/token_pieces.h"

namespace attndb::server {
namespace {

void Send(Service* service, const Call& call, const Json& json) {
  AnswerCall(service, call, {.body = ToText(json)});
}

double AsDouble(uint64_t value) { return static_cast<double>(value); }

// The resident memory of this process, shared pages included; 0 where the kernel does not tell:
// proc(5), statm.
uint64_t ResidentBytes() {
  uint64_t num_pages = 0;
  uint64_t num_resident = 0;
  std::ifstream("/proc/self/statm") >> num_pages >> num_resident;
  return num_resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// What others count, now.
std::vector<Sample> SamplesOf(const Service& service) {
  const PassCounts& passes = service.scheduler->counts();
  const Metrics& metrics = *service.metrics;
  std::vector<Sample> samples = {
      {"attndb_prompt_tokens", "Tokens of prompts, reused ones included.", true,
       AsDouble(metrics.num_prompt_tokens)},
      {"attndb_cached_tokens", "Tokens of prompts that were reused.", true,
       AsDouble(metrics.num_cached_tokens)},
      {"attndb_reply_tokens", "Tokens of replies.", true, AsDouble(metrics.num_reply_tokens)},
      {"attndb_embedded_tokens", "Tokens that embeddings were made of.", true,
       AsDouble(metrics.num_embedded_tokens)},
      {"attndb_ignored_lines", "Lines of system messages that were deleted.", true,
       AsDouble(metrics.num_ignored_lines)},
      {"attndb_cancelled_requests", "Requests whose client went before their end.", true,
       AsDouble(metrics.num_cancelled)},
      {"attndb_passes", "Passes of the model.", true, AsDouble(passes.num_passes)},
      {"attndb_failed_passes", "Passes that failed.", true, AsDouble(passes.num_failed_passes)},
      {"attndb_late_tokens", "Tokens that came later than their requests' tpot_ms.", true,
       AsDouble(passes.num_late_tokens)},
      {"attndb_declined_tokens", "Tokens that were stored, but cheaper to run again than to read.",
       true, AsDouble(service.conversations->prices().num_declined_tokens())},
      {"attndb_pass_prompt_tokens", "Tokens of prompts that passes ran.", true,
       AsDouble(passes.num_prompt_tokens)},
      {"attndb_pass_reply_tokens", "Tokens of replies that passes ran: by passes, the batch.", true,
       AsDouble(passes.num_reply_tokens)},
      {"attndb_active_turns", "Requests in passes.", false,
       AsDouble(service.scheduler->num_active())},
      {"attndb_waiting_turns", "Requests that wait for a place in passes.", false,
       AsDouble(service.scheduler->num_waiting())},
      {"attndb_loading_turns",
       "Requests whose conversations are being read from disk, or wait for that.", false,
       AsDouble(metrics.num_loading)},
      {"attndb_memory_waiting_turns", "Requests that wait for memory.", false,
       AsDouble(service.gate->num_waiting())},
      {"attndb_memory_promised_bytes", "Bytes that requests under way may need at most.", false,
       AsDouble(service.gate->num_held_bytes())},
      {"attndb_live_sessions", "Conversations whose sessions are in memory.", false,
       AsDouble(service.conversations->num_live())},
      {"attndb_pending_stores", "Turns that are answered and not yet durable.", false,
       AsDouble(service.conversations->num_pending())}};
  return samples;
}

void AddStore(const Result<DBStats>& stats, std::vector<Sample>* samples) {
  if (!stats.ok()) return;
  samples->push_back(
      {"attndb_stores", "Turns and texts that were stored.", true, AsDouble(stats->num_stores)});
  samples->push_back({"attndb_evictions", "Contexts that went to make room.", true,
                      AsDouble(stats->num_evictions)});
  samples->push_back({"attndb_damaged_segments", "Segments of the default tenant that are damaged.",
                      false, AsDouble(stats->num_damaged_segments)});
  samples->push_back({"attndb_disk_bytes", "Bytes on disk of the default tenant's segments.", false,
                      AsDouble(stats->file_bytes)});
}

void AddMemory(const Service& service, const Result<DBStats>& stats, std::vector<Sample>* samples) {
  const auto add = [samples](const char* kind, double bytes) {
    samples->push_back({"attndb_memory_bytes", "Bytes in memory, by kind.", false, bytes, kind});
  };
  // K and V, what is made of them, and scratch, against their limit; and the model's file.
  if (stats.ok()) add(R"(kind="kv")", AsDouble(stats->memory_bytes));
  add(R"(kind="weights")", AsDouble(service.engine->info().file_bytes));
  if (stats.ok()) {
    samples->push_back({"attndb_memory_limit_bytes", "Limit of the memory of kind kv.", false,
                        AsDouble(stats->memory_limit_bytes)});
  }
  samples->push_back({"process_resident_memory_bytes", "Bytes of the process in memory.", false,
                      AsDouble(ResidentBytes())});
}

Json ModelJson(const Service& service) {
  const llama::ModelInfo& info = service.engine->info();
  return {{"id", service.options.model_id},
          {"object", "model"},
          {"created", service.started},
          {"owned_by", "attndb"},
          {"meta",
           {{"name", info.name},
            {"description", info.description},
            {"n_params", info.num_parameters},
            {"size", info.file_bytes},
            {"n_vocab", info.vocab_size},
            {"n_ctx_train", info.trained_context}}}};
}

// Pieces of a long text take seconds.
Result<Json> PiecesAsAwaited(const Service& service, const Call& call,
                             std::span<const TokenId> tokens) {
  constexpr size_t kTokensPerLook = 4096;
  Json pieces = Json::array();
  while (!tokens.empty()) {
    ATTNDB_RETURN_IF_ERROR(CheckAwaited(service, call));
    const auto some = tokens.first(std::min(kTokensPerLook, tokens.size()));
    ATTNDB_ASSIGN_OR_RETURN(Json more, PiecesJson(*service.engine, some));
    std::ranges::move(more, std::back_inserter(pieces));
    tokens = tokens.subspan(some.size());
  }
  return pieces;
}

// A text of one piece is tokenized whole, so that clients can count what the window has no room
// for.
Result<Json> Tokenized(const Service& service, const Call& call) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(call.request->body));
  ATTNDB_ASSIGN_OR_RETURN(const TokenizeRequest request, ParseTokenize(body));
  const llama::LlamaEngine& engine = *service.engine;
  const llama::TokenizeLimits limits = LimitsFor(service, call, /*max_tokens=*/0);
  if (request.parse_special && request.content.size() > limits.piece_bytes) {
    return Status::InvalidArgument("'content' has " + FormatBytes(request.content.size()) +
                                   ", expected at most " + FormatBytes(limits.piece_bytes) +
                                   " with 'parse_special'");
  }
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<TokenId> tokens,
      engine.Tokenize(request.content, request.add_special, request.parse_special, limits));
  Json list = tokens;
  if (request.with_pieces) {
    ATTNDB_ASSIGN_OR_RETURN(list, PiecesAsAwaited(service, call, tokens));
  }
  Json json = Json::object();
  json["tokens"] = std::move(list);
  return json;
}

}  // namespace

void AnswerHealth(Service* service, Call call) { Send(service, call, {{"status", "ok"}}); }

void AnswerReady(Service* service, Call call) {
  if (service->stopping) {
    return AnswerCall(service, call, ErrorResponse(503, "the server stops"));
  }
  if (!service->ready) {
    return AnswerCall(service, call, ErrorResponse(503, "pinned prompts are being read"));
  }
  service->run_later(call, [service, call] {  // Looking at the disk may take a while.
    const Result<DB> db = service->conversations->HandleOf("");
    const Status place = db.ok() ? db->CheckPlace() : db.status();
    if (place.ok()) return Send(service, call, {{"status", "ready"}});
    AnswerCall(service, call, ErrorResponse(503, "the store is not where it was opened"));
  });
}

void AnswerModels(Service* service, Call call) {
  Send(service, call, {{"object", "list"}, {"data", Json::array({ModelJson(*service)})}});
}

void AnswerModel(Service* service, Call call, const std::string& id) {
  const std::string& model_id = service->options.model_id;
  if (id == model_id) return Send(service, call, ModelJson(*service));
  AnswerCall(service, call,
             ErrorResponse(Status::NotFound("there is no model " + Shown(id) +
                                            "; this server runs " + Shown(model_id))));
}

void AnswerMetrics(Service* service, Call call) {
  if (!call.rules.is_operator) {
    return AnswerCall(service, call,
                      ErrorResponse(403, "metrics count all tenants: ask with an operator's key"));
  }
  service->run_later(call, [service, call] {  // The store's numbers stand in its catalog.
    std::vector<Sample> samples = SamplesOf(*service);
    const Result<DB> db = service->conversations->HandleOf("");
    const Result<DBStats> stats = db.ok() ? db->Stats() : db.status();
    AddStore(stats, &samples);
    AddMemory(*service, stats, &samples);
    AnswerCall(service, call,
               {.content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8",
                .body = service->metrics->Render(samples)});
  });
}

void AnswerTokenize(Service* service, Call call) { AnswerLater(service, call, Tokenized); }

}  // namespace attndb::server
