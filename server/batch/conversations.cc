#include "server/batch/conversations.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/batch/turn.h"
#include "server/batch/turn_id.h"

namespace attndb::server {
namespace {

constexpr std::string_view kDefaultTenant = "default";
constexpr size_t kMaxFailed = 256;  // Stores whose errors are remembered.
constexpr size_t kMaxReplies = 16;  // To the same messages: the last ones that are looked at.
constexpr size_t kMaxCut = 64;      // Tokens of a turn behind its words.

size_t CommonLength(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

Conversations::Conversations(DB db, const llama::LlamaEngine* engine,
                             const ConversationOptions& options)
    : db_(std::move(db)), engine_(engine), options_(options) {}

Result<DB> Conversations::HandleOf(const std::string& tenant) const {
  if (tenant.empty() || tenant == kDefaultTenant) return db_;
  return db_.ForTenant(tenant);
}

Result<Continuation> Conversations::Start(const std::string& tenant,
                                          std::span<const TokenId> prompt,
                                          const std::string& plan) {
  ATTNDB_ASSIGN_OR_RETURN(const DB db, HandleOf(tenant));
  SessionOptions options;
  options.plan = plan;
  Result<SessionStart> stored = db.CreateSession(engine_->spec(), prompt, options);
  const uint64_t num_known = stored.ok() ? prompt.size() - stored->rest.size() : 0;
  if (auto live = ForkLive(tenant, prompt, num_known, plan)) return *std::move(live);
  ATTNDB_RETURN_IF_ERROR(stored.status());
  const ReusePrice price = PriceOf(stored->session);
  if (price.way == ReuseWay::kRun) {
    prices_.NoteDeclined(price);
    options.reuse = false;
    ATTNDB_ASSIGN_OR_RETURN(SessionStart fresh, db.CreateSession(engine_->spec(), prompt, options));
    return Continuation{std::move(fresh.session), std::move(fresh.rest), price};
  }
  return Continuation{std::move(stored->session), std::move(stored->rest), price,
                      price.way == ReuseWay::kDisk};
}

ReusePrice Conversations::PriceOf(const Session& session) const {
  const uint64_t num_tokens = session.num_tokens();
  const uint64_t num_bytes = num_tokens * session.spec().KvBytesPerToken();
  const uint64_t num_missing = num_bytes - std::min(num_bytes, session.memory_bytes());
  ReusePrice price = prices_.PriceOf(num_tokens, num_missing);
  // What has lost tokens can't be run again as it was.
  if (price.way == ReuseWay::kRun && session.num_dropped() > 0) price.way = ReuseWay::kDisk;
  return price;
}

void Conversations::Load(Session* session) {
  const double start = MonotonicSeconds();
  const uint64_t num_before = session->memory_bytes();
  const Status status = options_.load ? options_.load(session) : session->Load();
  if (!status.ok()) return;
  const uint64_t num_after = session->memory_bytes();
  prices_.LearnRead(num_after - std::min(num_before, num_after), MonotonicSeconds() - start);
}

bool Conversations::IsLost(const Live& live) const {
  const Key key(live.tenant, live.id);
  const auto is_lost = [](const Status& status) {
    return status.code() == StatusCode::kCorruption;
  };
  const auto store = stores_.find(key);
  if (store != stores_.end()) return store->second.done() && is_lost(store->second.Wait().status());
  return std::ranges::any_of(failed_, [&](const auto& failure) {
    return failure.first == key && is_lost(failure.second);
  });
}

std::optional<Continuation> Conversations::ForkLive(const std::string& tenant,
                                                    std::span<const TokenId> prompt,
                                                    uint64_t num_known, const std::string& plan) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Live* best = nullptr;
  uint64_t best_length = num_known;
  for (Live& live : live_) {
    if (live.tenant != tenant || IsLost(live)) continue;
    const uint64_t length = std::min(CommonLength(live.tokens, prompt), prompt.size() - 1);
    if (length <= best_length) continue;
    best = &live;
    best_length = length;
  }
  if (best == nullptr) return std::nullopt;
  Result<Session> fork = best->session.Fork();
  if (!fork.ok() || !fork->Crop(best_length).ok()) return std::nullopt;
  if (!plan.empty() && !fork->SetPlan(plan).ok()) return std::nullopt;
  const auto rest = prompt.subspan(best_length);
  ReusePrice price = PriceOf(*fork);
  if (price.way == ReuseWay::kRun) price.way = ReuseWay::kDisk;  // Only parts of it are there.
  return Continuation{
      *std::move(fork), {rest.begin(), rest.end()}, price, price.way == ReuseWay::kDisk};
}

Result<Remembered> Conversations::Recall(const std::string& tenant,
                                         std::span<const llama::ChatMessage> messages) {
  ATTNDB_RETURN_IF_ERROR(ListTurns(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> digests, DigestsOf(messages));
  for (size_t reply = messages.size() - 1; reply-- > 1;) {
    if (messages[reply].role != kAssistantRole) continue;
    std::optional<Matched> best;  // Among several replies, the one that says most of the words.
    for (const std::string& id : TurnsOf({tenant, digests[reply - 1]})) {
      std::vector<TokenId> tokens = TokensOf(tenant, id);
      if (tokens.empty()) continue;
      ATTNDB_ASSIGN_OR_RETURN(auto matched,
                              MatchReply(std::move(tokens), messages.first(reply + 1)));
      if (matched && (!best || matched->num_bytes > best->num_bytes)) best = std::move(matched);
    }
    if (best) return Remembered{reply + 1, std::move(best->tokens)};
  }
  return Remembered{};
}

Status Conversations::ListTurns(const std::string& tenant) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (listed_.contains(tenant)) return Status::Ok();
  }
  ATTNDB_ASSIGN_OR_RETURN(const DB db, HandleOf(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> contexts, db.List());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!listed_.insert(tenant).second) return Status::Ok();
  // Those that were kept meanwhile are the newest.
  for (auto context = contexts.rbegin(); context != contexts.rend(); ++context) {
    NoteTurn(tenant, context->name, /*is_newest=*/false);
  }
  return Status::Ok();
}

void Conversations::NoteTurn(const std::string& tenant, const std::string& id, bool is_newest) {
  const std::optional<std::string> digest = DigestIn(id);
  if (!digest) return;
  std::vector<std::string>& ids = turns_[{tenant, *digest}];
  if (std::ranges::find(ids, id) != ids.end()) return;
  ids.insert(is_newest ? ids.end() : ids.begin(), id);
}

std::vector<std::string> Conversations::TurnsOf(const Key& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = turns_.find(key);
  if (found == turns_.end()) return {};
  const size_t num_last = std::min(found->second.size(), kMaxReplies);
  return {found->second.rbegin(), found->second.rbegin() + static_cast<std::ptrdiff_t>(num_last)};
}

std::vector<TokenId> Conversations::TokensOf(const std::string& tenant,
                                             const std::string& id) const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Live& live : live_) {
      if (live.tenant == tenant && live.id == id) return live.tokens;
    }
  }
  const Result<DB> db = HandleOf(tenant);
  Result<std::vector<TokenId>> tokens = db.ok() ? db->Tokens(id) : db.status();
  return tokens.ok() ? *std::move(tokens) : std::vector<TokenId>();
}

Result<std::optional<Conversations::Matched>> Conversations::MatchReply(
    std::vector<TokenId> tokens, std::span<const llama::ChatMessage> messages) const {
  const auto nothing = std::optional<Matched>();
  // The reply begins behind the last header of the assistant.
  const auto asked = messages.subspan(messages.size() - 2, 1);
  ATTNDB_ASSIGN_OR_RETURN(const auto header, engine_->Conversation(asked, asked.size()));
  if (header.empty()) return nothing;
  const auto begin = std::find_end(tokens.begin(), tokens.end(), header.begin(), header.end());
  if (begin == tokens.end()) return nothing;
  const auto num_asked = static_cast<size_t>(begin - tokens.begin()) + header.size();
  const std::string& words = messages.back().content;
  const auto text_of_reply = [&] {
    return engine_->ReplyText(std::span<const TokenId>(tokens).subspan(num_asked));
  };
  ATTNDB_ASSIGN_OR_RETURN(std::string text, text_of_reply());
  // Tokens behind the words, as those of a stop string, are none of the conversation.
  for (size_t num_cut = 0; !words.starts_with(text); ++num_cut) {
    if (num_cut == kMaxCut || tokens.size() == num_asked) return nothing;
    tokens.pop_back();
    ATTNDB_ASSIGN_OR_RETURN(text, text_of_reply());
  }
  const size_t num_bytes = text.size();
  if (num_bytes == words.size()) return std::optional(Matched{std::move(tokens), num_bytes});
  // A reply that was cut: its last token was not run. Tokenizers that set spaces before a text may
  // not be able to say the rest.
  ATTNDB_ASSIGN_OR_RETURN(const auto rest,
                          engine_->Tokenize(words.substr(num_bytes), false, false));
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  ATTNDB_ASSIGN_OR_RETURN(text, text_of_reply());
  if (text != words) return nothing;
  return std::optional(Matched{std::move(tokens), num_bytes});
}

void Conversations::Keep(const std::string& tenant, const std::string& id, Session session,
                         std::vector<TokenId> tokens, std::optional<StoreOptions> store_options) {
  const Result<DB> db = HandleOf(tenant);
  if (!db.ok()) return;
  StoreOptions options = store_options.value_or(StoreOptions{.ttl = options_.ttl});
  options.name = id;
  Result<PendingStore> store = db->StoreAsync(session, tokens, options);

  const std::lock_guard<std::mutex> lock(mutex_);
  NoteStore(Key(tenant, id), std::move(store));
  NoteTurn(tenant, id, /*is_newest=*/true);
  // The turn that this one continues is all in it.
  std::erase_if(live_, [&](const Live& live) {
    return live.tenant == tenant && CommonLength(live.tokens, tokens) == live.tokens.size();
  });
  live_.push_front({tenant, id, std::move(tokens), std::move(session)});
  while (live_.size() > options_.max_live) live_.pop_back();
}

void Conversations::Keep(const std::string& tenant, const std::string& id, Session session,
                         std::vector<TokenId> tokens) {
  Keep(tenant, id, std::move(session), std::move(tokens), StoreOptions{.ttl = options_.ttl});
}

void Conversations::NoteStore(const Key& key, Result<PendingStore> store) {
  for (auto entry = stores_.begin(); entry != stores_.end();) {
    const bool is_done = entry->second.done();
    const Status status = is_done ? entry->second.Wait().status() : Status::Ok();
    if (is_done && !status.ok()) NoteFailure(entry->first, status);
    entry = is_done ? stores_.erase(entry) : std::next(entry);  // The store itself knows it now.
  }
  std::erase_if(failed_, [&key](const auto& failure) { return failure.first == key; });
  if (store.ok()) {
    stores_.insert_or_assign(key, *std::move(store));  // A name may be stored again.
  } else {
    NoteFailure(key, store.status());
  }
}

void Conversations::NoteFailure(const Key& key, const Status& status) {
  failed_.emplace_back(key, status);
  if (failed_.size() > kMaxFailed) failed_.pop_front();
}

TurnState Conversations::StateOf(const std::string& tenant, const std::string& id, Status* error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (under_way_.contains({tenant, id})) return TurnState::kPending;
    const auto found = stores_.find({tenant, id});
    if (found != stores_.end()) {
      if (!found->second.done()) return TurnState::kPending;
      *error = found->second.Wait().status();
      return error->ok() ? TurnState::kDurable : TurnState::kFailed;
    }
    for (const auto& [key, status] : failed_) {
      if (key != Key(tenant, id)) continue;
      *error = status;
      return TurnState::kFailed;
    }
  }
  const Result<DB> db = HandleOf(tenant);
  return db.ok() && db->Describe(id).ok() ? TurnState::kDurable : TurnState::kUnknown;
}

std::shared_ptr<void> Conversations::NoteUnderWay(const std::string& tenant,
                                                  const std::string& id) {
  const Key key(tenant, id);
  const std::lock_guard<std::mutex> lock(mutex_);
  under_way_.insert(key);
  return {nullptr, [this, key](void*) {
            const std::lock_guard<std::mutex> again(mutex_);
            under_way_.erase(under_way_.find(key));
          }};
}

Status Conversations::WaitFor(const std::string& tenant, const std::string& id) {
  const Key key(tenant, id);
  std::optional<PendingStore> store;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = stores_.find(key);
    if (found != stores_.end()) store = found->second;
    for (const auto& [failed, status] : failed_) {
      if (!store && failed == key) return status;
    }
  }
  return store ? store->Wait().status() : Status::Ok();
}

Status Conversations::Drop(const std::string& tenant, const std::string& context) {
  ATTNDB_ASSIGN_OR_RETURN(const DB db, HandleOf(tenant));
  const Result<std::vector<TokenId>> tokens = db.Tokens(context);  // Fails if they are damaged.
  ATTNDB_RETURN_IF_ERROR(db.Drop(context));
  if (!tokens.ok()) return Status::Ok();
  std::list<Live> dropped;  // Closed without the mutex.
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto next = live_.begin(); next != live_.end();) {
    const auto live = next++;
    if (live->tenant == tenant && live->tokens == *tokens) {
      dropped.splice(dropped.begin(), live_, live);
    }
  }
  return Status::Ok();
}

void Conversations::DropLive() {
  const std::lock_guard<std::mutex> lock(mutex_);
  live_.clear();
}

void Conversations::DropLive(const std::string& tenant) {
  while (DropOldestLive(tenant)) {
  }
}

bool Conversations::DropOldestLive(const std::string& tenant) {
  std::list<Live> dropped;  // Closed without the mutex.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_theirs = [&](const Live& live) { return live.tenant == tenant; };
  const auto oldest = std::find_if(live_.rbegin(), live_.rend(), is_theirs);
  if (oldest == live_.rend()) return false;
  dropped.splice(dropped.begin(), live_, std::prev(oldest.base()));
  return true;
}

Result<RoomReport> Conversations::CheckRoom(const std::string& tenant,
                                            std::span<const TokenId> tokens) {
  ATTNDB_ASSIGN_OR_RETURN(const DB db, HandleOf(tenant));
  while (true) {
    Result<RoomReport> report = db.CheckRoom(engine_->spec(), tokens, {.wait = false});
    if (report.status().code() != StatusCode::kResourceExhausted) return report;
    if (!DropOldestLive(tenant)) return report;
  }
}

std::vector<PendingStore> Conversations::PendingStores() const {
  std::vector<PendingStore> stores;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, store] : stores_) {
    if (!store.done()) stores.push_back(store);
  }
  return stores;
}

void Conversations::WaitForStores() {
  for (const PendingStore& store : PendingStores()) (void)store.Wait();
}

size_t Conversations::num_live() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return live_.size();
}

size_t Conversations::num_pending() const { return PendingStores().size(); }

}  // namespace attndb::server
