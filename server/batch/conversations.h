// What is remembered of conversations: sessions of the last ones in memory, all of them in the
// store. Whoever comes back is continued from the longest part that either has, exact to the token.
//
// Method:  a turn's tokens are stored behind its answer (DB::StoreAsync), under the turn's id; its
//          session stays in memory until max_live newer ones have come. A prompt takes the live
//          session that has most of it, as a fork of it, or what the store has, if that is more:
//          nothing is copied out and nothing removed, so that any number of requests continue from
//          one turn. What would have to be read from disk is run again where that is cheaper
//          (reuse_prices.h).
//          A client sends the words of a reply, whose tokens need not be those that a tokenizer
//          makes of them. Turn ids name the messages that were answered (turn_id.h): Candidates
//          gives the turns that answered these. Prompts finds out which of them has the words.
// Names:   a name stands for what has it now. An answered turn has its name at once: its tokens are
//          in memory until its Store ends. Names change in the store alone, and calls that change
//          them wait for that Store: WaitFor.
//          A turn that could not be stored has its name only if no stored context has the name.
// Limits:  max_live sessions; of the tenants that were asked for, the names of the last 64 turns
//          that answer the same messages.
// Threads: thread-safe. Calls search the catalog and may read token ids from disk; the first of a
//          tenant lists its contexts. Load alone reads K and V.
#ifndef ATTNDB_SERVER_BATCH_CONVERSATIONS_H_
#define ATTNDB_SERVER_BATCH_CONVERSATIONS_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/kept_text.h"
#include "server/batch/reuse_prices.h"
#include "server/batch/store_ledger.h"

namespace attndb::server {

inline constexpr const char* kAssistantRole = "assistant";

struct ConversationOptions {
  size_t max_live = 32;
  std::optional<std::chrono::seconds>
      ttl;  // For stored turns, since their last use; none = for ever.
  // What reads a session's K and V; absent: Session::Load. Tests wait in it.
  std::function<Status(Session*)> load;
};

// How far a turn is: known by its id.
enum class TurnState : uint8_t { kUnknown, kPending, kDurable, kFailed };

// A session that has the first tokens of a prompt, and the others, which are left to run.
struct Continuation {
  Session session;
  std::vector<TokenId> rest;
  ReusePrice reuse;
  bool is_unread = false;  // What the session has is on disk: Conversations::Load.
};

// How many first tokens are equal.
size_t CommonLength(std::span<const TokenId> a, std::span<const TokenId> b);

// A session of the first `num_tokens` tokens of another one, with a plan of its own; an empty plan
// is the other's. None: it can't be made.
std::optional<Session> ForkOf(const Session& session, uint64_t num_tokens, const std::string& plan);

class Conversations {
 public:
  Conversations(DB db, const llama::LlamaEngine* engine, const ConversationOptions& options);

  // A session that has as much of the prompt as is known and worth having, to be run in `window`.
  // Tokens that an earlier, smaller window dropped are left to run if this one has room for them.
  // `left_out`: tokens of the prompt that leave the session at once, where it has all of them.
  // Errors: as DB::CreateSession; if `left_out` is not empty, also those of llama::LeaveOut.
  Result<Continuation> Start(const std::string& tenant, std::span<const TokenId> prompt,
                             const std::string& plan, const llama::WindowOptions& window = {},
                             std::span<const TokenRange> left_out = {});
  // A fork of the live session that has most of the prompt, if that is more than num_known tokens;
  // none: there is no such session.
  std::optional<Continuation> ForkLive(const std::string& tenant, std::span<const TokenId> prompt,
                                       uint64_t num_known, const std::string& plan,
                                       const llama::WindowOptions& window,
                                       std::span<const TokenRange> left_out = {});
  // Reads what a session of Start's has on disk, on this thread, so that no pass waits for it. A
  // pass tells what can't be read.
  void Load(Session* session);

  // The tokens of the context that has the name (or "#id") now: of a turn that was answered, from
  // memory until its Store ends. This is a use of the context: its time to live begins anew.
  // Errors: kNotFound (there is none, or its life is over); as DB::Tokens.
  Result<KeptText> TextOf(const std::string& tenant, const std::string& context);
  // The text of the turn that was answered under this name and has the name without being durable;
  // null: there is none.
  std::shared_ptr<const KeptText> UnstoredText(const std::string& tenant,
                                               const std::string& context) const;

  // The title of a stored conversation. "": it has none, or the context is a document or unknown.
  std::string TitleOf(const std::string& tenant, const std::string& context) const;

  // The texts of the turns that answered the messages with this digest: the newest first, the last
  // 64, which are all choices of a request. Errors: as DB::List.
  Result<std::vector<KeptText>> Candidates(const std::string& tenant, const std::string& digest);
  // The texts that share the most first tokens with a prompt, 32 at least, of live sessions and of
  // the last stored contexts: the longest first, 4 at most.
  std::vector<KeptText> Longest(const std::string& tenant, std::span<const TokenId> prompt) const;
  // Returns the text of the live session that shares the most first tokens with the prompt. Only
  // sessions with fewer messages count, by the layouts. Returns null if none shares a token.
  std::shared_ptr<const KeptText> LiveLike(const std::string& tenant,
                                           std::span<const TokenId> prompt,
                                           const TextLayout& text) const;
  // Finds the stored context that shares the most first tokens with the prompt, 32 at least.
  // Returns its text if it has fewer messages than the prompt. Otherwise it tries the context that
  // this one continues, and so on. Returns null if there is none. Reads the tokens of one context.
  // The search is no use of a context, and no lookup in DBStats.
  std::shared_ptr<const KeptText> StoredLike(const std::string& tenant,
                                             std::span<const TokenId> prompt,
                                             const TextLayout& text) const;
  // Stores what the session holds, as context `id`, and keeps it for the next turn. `tokens`: all
  // that it holds. `store`: how, but for the name; none: with the time to live of conversations.
  // `text`: whose words the tokens are. `title`: unless `store` has one. Returns the Store that it
  // began.
  StoreTicket Keep(const std::string& tenant, const std::string& id, Session session,
                   std::vector<TokenId> tokens, std::optional<StoreOptions> store,
                   const TextLayout& text = {}, const std::string& title = "");
  // As conversations are. No default argument: of an empty one GCC 12 warns wrongly.
  StoreTicket Keep(const std::string& tenant, const std::string& id, Session session,
                   std::vector<TokenId> tokens);
  // Waits until the Stores that were begun under this name have ended. Errors: those of the last,
  // except for kAlreadyExists.
  Status WaitFor(const std::string& tenant, const std::string& id);
  // Whether WaitFor would wait.
  bool IsBeingStored(const std::string& tenant, const std::string& id) const;
  // The Stores for which WaitFor would wait.
  std::vector<PendingStore> PendingStoresOf(const std::string& tenant, const std::string& id) const;

  // A turn that will be kept as `id`, which may be the name of an earlier one, is pending until
  // what this returns is gone. REQUIRES: it goes before this.
  std::shared_ptr<void> NoteUnderWay(const std::string& tenant, const std::string& id);
  // kFailed: the last Store under this id failed, with `error`. An older context may have the name.
  TurnState StateOf(const std::string& tenant, const std::string& id, Status* error);

  // Drops a context of the store, by name or "#id", and lets go of what memory has of it; of a turn
  // that could not be stored, memory has all. Waits as WaitFor. Errors: as DB::Drop.
  Status Drop(const std::string& tenant, const std::string& context);
  // Waits as WaitFor, for both names. Errors: as DB::Rename.
  Status Rename(const std::string& tenant, const std::string& context, const std::string& name);
  // Lets go of all sessions that nobody is using: memory is short.
  void DropLive();
  // Lets go of the tenant's: what one of them has can't be read any more, and the next request
  // starts from what the store has.
  void DropLive(const std::string& tenant);
  // Tells the room that a Store of these tokens would take. Live sessions use their contexts, so
  // the store can't evict these. If there is not enough room, drops live sessions of the tenant,
  // the oldest first.
  // Errors: as DB::CheckRoom, which waits for no merge.
  Result<RoomReport> CheckRoom(const std::string& tenant, std::span<const TokenId> tokens);
  // What was kept and is not durable yet.
  std::vector<PendingStore> PendingStores() const;
  // Waits until what was kept is durable, or can't be.
  void WaitForStores();

  // The tenant's handle. Errors: kInvalidArgument (name).
  Result<DB> HandleOf(const std::string& tenant) const;
  // What Start would decide of a session that has what the store has of a prompt.
  ReusePrice PriceOf(const Session& session) const;
  // By which it decides.
  ReusePrices& prices() { return prices_; }

  size_t num_live() const;
  size_t num_pending() const;

 private:
  using Key = std::pair<std::string, std::string>;  // The tenant, and what is its own.

  struct Live {
    std::string tenant;
    std::string id;
    std::shared_ptr<const KeptText> kept;
    Session session;
  };

  // Lists the tenant's turns, once.
  Status ListTurns(const std::string& tenant);
  std::vector<std::string> TurnsOf(const Key& key) const;  // The newest first.
  // The texts of the last contexts that may go on from the one that has most of a prompt. Empty:
  // the store can't be asked.
  std::vector<KeptText> LastStored(const std::string& tenant,
                                   std::span<const TokenId> prompt) const;
  // The text that was kept of a turn. Errors: kNotFound (the turn is gone); as DB::Tokens.
  Result<KeptText> TurnText(const std::string& tenant, const std::string& id) const;
  // The last of the turns that are there, of those whose ids have this digest. Forgets the others.
  std::vector<KeptText> TurnTexts(const Key& key);

  // Lets go of the tenant's oldest live session. False: it has none.
  bool DropOldestLive(const std::string& tenant);

  // These need mutex_.
  void NoteTurn(const std::string& tenant, const std::string& id, bool is_newest);
  void ForgetTurn(const std::string& tenant, const std::string& id);
  // Whether the session's own turn can't be stored, as what it goes on from is lost.
  bool IsLost(const Live& live) const;

  const DB db_;
  const llama::LlamaEngine* const engine_;
  const ConversationOptions options_;
  ReusePrices prices_;
  StoreLedger stores_;

  mutable std::mutex mutex_;                      // Locked before that of stores_.
  std::list<Live> live_;                          // The newest first.
  std::map<Key, std::deque<std::string>> turns_;  // The last ids, by the digest in them.
  std::set<std::string> listed_;                  // Tenants whose turns are in turns_.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_CONVERSATIONS_H_
