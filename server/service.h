// What the routes of a server share.
#ifndef ATTNDB_SERVER_SERVICE_H_
#define ATTNDB_SERVER_SERVICE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "attndb/result.h"
#include "server/batch/conversations.h"
#include "server/batch/load_queue.h"
#include "server/batch/prompts.h"
#include "server/batch/running_turns.h"
#include "server/batch/scheduler.h"
#include "server/batch/turn.h"
#include "server/chat/line_filter.h"
#include "server/http/exchange.h"
#include "server/json.h"
#include "server/metrics/metrics.h"
#include "server/metrics/request_log.h"
#include "server/routes/appends.h"
#include "server/server.h"
#include "server/tenants/admission.h"
#include "server/tenants/key_ring.h"
#include "server/tenants/memory_gate.h"

namespace attndb::server {

class HeadFinder;

// One request on its way through the routes.
struct Call {
  // WithoutRequest sets this to null. Code that runs once the turn is scheduled must not read it.
  std::shared_ptr<const Request> request;
  std::string method;
  std::shared_ptr<Responder> responder;
  std::string_view route;  // Its path, as metrics call it; empty: there is none such.
  std::string lost_path;   // The path as the log has it, if no route has it; else empty.
  TenantRules rules;
  Admission::Place place;       // Held for as long as the call goes on.
  double received_seconds = 0;  // By MonotonicSeconds.
  size_t body_bytes = 0;        // The size of its request's body.
  std::string id;               // The client's, or one that no other request has.
  std::shared_ptr<std::atomic<bool>> noted = std::make_shared<std::atomic<bool>>(false);
};

// Returns a copy without the request. A waiting turn would otherwise hold a large body, which no
// limit of memory counts.
Call WithoutRequest(Call call);

// The tokens that a fork of a session takes memory for, besides those that it appends: it copies a
// block of at most 256 (Session::Fork), and its last block has room to spare. `num_rest`: the
// tokens of the prompt that are not stored.
inline uint64_t ForkTokens(uint64_t num_rest) {
  constexpr uint64_t kBlockTokens = 256;
  return std::min(num_rest, kBlockTokens) + kBlockTokens;
}

// How a call has ended, as metrics and the log have it.
struct CallEnd {
  int status = 200;
  // Requests for text have these.
  uint64_t num_prompt_tokens = 0;
  uint64_t num_cached_tokens = 0;
  uint64_t num_reply_tokens = 0;
  double first_token_seconds = 0;
  uint64_t num_cut_tokens = 0;
  std::string parted = {};  // TurnStart::parted.
  uint64_t num_ignored_lines = 0;
};
inline constexpr int kClientGone = 499;  // No status of HTTP: nobody was there to get one.

struct Service {
  ServerOptions options;
  LineFilter line_filter;  // Made of options.ignored_lines.
  // LlamaEngine::ChatTemplateCaps, when the server started: a template may keep others waiting.
  // Empty: the template is not known, or nobody can apply it.
  std::map<std::string, bool> template_caps;
  // Only the scheduler runs passes: const, so that no route overwrites the logits of one.
  const llama::LlamaEngine* engine = nullptr;
  Conversations* conversations = nullptr;
  const Prompts* prompts = nullptr;
  Scheduler* scheduler = nullptr;
  std::function<bool()> runs_turns;  // Whether any share passes now.
  Metrics* metrics = nullptr;
  RunningTurns* running = nullptr;
  Admission* admission = nullptr;
  MemoryGate* gate = nullptr;
  LoadQueue* loads = nullptr;
  HeadFinder* head_finder = nullptr;
  Appends* appends = nullptr;
  RequestLog* log = nullptr;
  std::atomic<bool> stopping = false;
  std::atomic<bool> is_cut = false;  // The stop waits no longer for what is under way.
  std::atomic<bool> ready = false;   // What is run before the first request has been run.
  int64_t started = 0;               // Seconds since the Unix epoch.
  // Runs work that takes longer than a listener's thread may; and work that waits for the disk.
  std::function<void(const Call& call, std::function<void()>)> run_later;
  std::function<void(const Call& call, std::function<void()>)> run_waiting;
  // Runs what reads contexts from the disk, by `loads`: whose context is in memory does not wait
  // for that. Work whose call is gone before it begins is let go of.
  std::function<void(const Call& call, std::function<void()>, std::function<bool()> is_gone)>
      run_loading;
  std::atomic<uint32_t> num_chores = 0;           // Those under way or waiting.
  std::atomic<uint32_t> num_embedding_calls = 0;  // Likewise.
  // Runs what makes one embedding, on a thread of run_later's: one such at a time.
  std::function<void(const Call& call, std::function<void()>)> run_embedding;
  // Runs what takes minutes: one such at a time.
  std::function<void(const Call& call, std::function<void()>)> run_chore;
};

// Runs `work` when nothing that was answered under the name is still being stored: at once, or by
// run_later. The thread that waits does nothing else, since others wait behind it.
void RunWhenStored(Service* service, const Call& call, const std::string& name,
                   const std::function<void()>& work);

// Counts a call that has ended, and notes it in the log. The first end of a call is its end.
void NoteEnd(Service* service, const Call& call, const CallEnd& end);

// Sends the answer of a call that has no more to count.
void AnswerCall(Service* service, const Call& call, Response response);

// The same where the answer is a JSON object, or why there is none.
void AnswerCall(Service* service, const Call& call, const Result<Json>& json);

// The same on another thread (Service::run_later), where `answer` gives the object.
void AnswerLater(Service* service, const Call& call,
                 Result<Json> (*answer)(const Service& service, const Call& call));

// The tokens of the model's window: --window, or what the model is meant for; 0: nobody knows.
uint64_t WindowTokens(const Service& service);

// Limits for tokenizing texts of the call. Tokenize ends with kCancelled once the client has gone,
// or once the server cuts what is under way. `max_tokens`: 0 is no limit. The service outlives the
// limits.
llama::TokenizeLimits LimitsFor(const Service& service, const Call& call, uint64_t max_tokens);

// Errors: kCancelled (the client has gone, or the server cuts what is under way).
Status CheckAwaited(const Service& service, const Call& call);

// A count of tokens, "at least" so many if the call's texts are so long that counting may have
// ended at a limit.
std::string CountedTokens(const Call& call, uint64_t num_tokens);

// The most tokens of one request that memory can be promised for; UINT64_MAX: it has no limit.
uint64_t PromisableTokens(const Service& service);

// Schedules a turn that no client asked for, as soon as memory can be promised for it. If it is
// refused, its listener gets the error. REQUIRES: its session needs no read from disk.
void AddWhenPromised(Service* service, const std::shared_ptr<Turn>& turn);

// Hands the call's turn to the scheduler as soon as memory can be promised for the K and V of the
// tokens that it may run: those of its prompt that are not reused, and max_tokens, up to the
// window. Counts the tokens that it runs for the tenant, and ends it when the client goes.
// `is_unread`: K and V of the session are on disk, and a thread that loads reads them first. If the
// disk or the quota has no room for the turn, the client gets 507, because an early retry would
// fail again. If memory lacks, the client gets 503 and may retry.
// Errors: kInvalidArgument (there is never so much memory); as Scheduler::Add, MemoryGate::Enter,
//         and as DB::CheckRoom but for want of room.
Status ScheduleTurn(Service* service, const Call& call, const std::shared_ptr<Turn>& turn,
                    bool is_unread);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_SERVICE_H_
