#include "server/batch/conversations.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engines/llama/prompt_layout.h"
#include "engines/llama/window.h"
#include "server/batch/turn.h"
#include "server/batch/turn_id.h"

namespace attndb::server {
namespace {

constexpr std::string_view kDefaultTenant = "default";
constexpr size_t kMaxFailed = 256;  // Stores whose errors are remembered.
constexpr size_t kMaxReplies = 16;  // To the same messages: the last ones that are looked at.
constexpr size_t kMaxCut = 64;      // Tokens of a turn behind its words.

bool BeginsWith(std::span<const TokenId> tokens, std::span<const TokenId> beginning) {
  return CommonLength(beginning, tokens) == beginning.size();
}

// REQUIRES: the part is not empty.
size_t CountOf(std::span<const TokenId> part, std::span<const TokenId> tokens) {
  size_t count = 0;
  for (auto rest = tokens.begin();; ++count) {
    rest = std::search(rest, tokens.end(), part.begin(), part.end());
    if (rest == tokens.end()) return count;
    rest += static_cast<std::ptrdiff_t>(part.size());
  }
}

// The text that the store has under a name.
Result<KeptText> StoredText(const DB& db, const std::string& context) {
  ATTNDB_ASSIGN_OR_RETURN(ContextInfo info, db.Describe(context));
  KeptText stored;
  // By its id: the name may be given to another context between the two calls.
  ATTNDB_ASSIGN_OR_RETURN(stored.tokens,
                          db.Tokens("#" + std::to_string(static_cast<int64_t>(info.id))));
  // It keeps its id when it grows.
  if (info.num_tokens == stored.tokens.size()) stored.text = std::move(info.text_layout);
  return stored;
}

}  // namespace

size_t CommonLength(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::optional<Session> ForkOf(const Session& session, uint64_t num_tokens,
                              const std::string& plan) {
  Result<Session> fork = session.Fork();
  if (!fork.ok() || !llama::CropTo(num_tokens, &*fork).ok()) return std::nullopt;
  if (!plan.empty() && !fork->SetPlan(plan).ok()) return std::nullopt;
  return *std::move(fork);
}

Conversations::Conversations(DB db, const llama::LlamaEngine* engine,
                             const ConversationOptions& options)
    : db_(std::move(db)), engine_(engine), options_(options) {}

Result<DB> Conversations::HandleOf(const std::string& tenant) const {
  if (tenant.empty() || tenant == kDefaultTenant) return db_;
  return db_.ForTenant(tenant);
}

Result<Continuation> Conversations::Start(const std::string& tenant,
                                          std::span<const TokenId> prompt, const std::string& plan,
                                          const llama::WindowOptions& window) {
  ATTNDB_ASSIGN_OR_RETURN(const DB db, HandleOf(tenant));
  SessionOptions options;
  options.plan = plan;
  Result<SessionStart> stored =
      llama::CreateSessionIn(window, db, engine_->spec(), prompt, options);
  const uint64_t num_known = stored.ok() ? prompt.size() - stored->rest.size() : 0;
  if (auto live = ForkLive(tenant, prompt, num_known, plan, window)) return *std::move(live);
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

std::optional<Status> Conversations::FailureOf(const Key& key) const {
  const auto store = stores_.find(key);
  if (store != stores_.end()) {
    const PendingStore& under_way = store->second.store;
    if (!under_way.done() || under_way.Wait().ok()) return std::nullopt;
    return under_way.Wait().status();
  }
  const auto failure = std::ranges::find(failed_, key, &std::pair<Key, Status>::first);
  return failure == failed_.end() ? std::nullopt : std::optional(failure->second);
}

bool Conversations::IsLost(const Live& live) const {
  const std::optional<Status> failure = FailureOf({live.tenant, live.id});
  return failure && failure->code() == StatusCode::kCorruption;
}

std::optional<Continuation> Conversations::ForkLive(const std::string& tenant,
                                                    std::span<const TokenId> prompt,
                                                    uint64_t num_known, const std::string& plan,
                                                    const llama::WindowOptions& window) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Live* best = nullptr;
  uint64_t best_length = num_known;
  for (Live& live : live_) {
    if (live.tenant != tenant || IsLost(live)) continue;
    const uint64_t common = std::min(CommonLength(live.kept->tokens, prompt), prompt.size() - 1);
    const uint64_t length =
        llama::ReusableTokens(window, live.session.cuts(), common, prompt.size());
    if (length <= best_length) continue;
    best = &live;
    best_length = length;
  }
  if (best == nullptr) return std::nullopt;
  std::optional<Session> fork = ForkOf(best->session, best_length, plan);
  if (!fork) return std::nullopt;
  const auto rest = prompt.subspan(best_length);
  ReusePrice price = PriceOf(*fork);
  if (price.way == ReuseWay::kRun) price.way = ReuseWay::kDisk;  // Only parts of it are there.
  return Continuation{
      *std::move(fork), {rest.begin(), rest.end()}, price, price.way == ReuseWay::kDisk};
}

std::shared_ptr<const KeptText> Conversations::UnstoredText(const std::string& tenant,
                                                            const std::string& context) const {
  const Key key(tenant, context);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = stores_.find(key);
  if (found != stores_.end() && !found->second.store.done()) return found->second.kept;
  if (!FailureOf(key)) return nullptr;
  for (const Live& live : live_) {
    if (live.tenant == tenant && live.id == context) return live.kept;
  }
  return nullptr;
}

Result<KeptText> Conversations::TextOf(const std::string& tenant, const std::string& context) {
  if (const auto unstored = UnstoredText(tenant, context)) return *unstored;
  ATTNDB_ASSIGN_OR_RETURN(const DB db, HandleOf(tenant));
  ATTNDB_ASSIGN_OR_RETURN(KeptText stored, StoredText(db, context));
  // What was imported for another type of K and V, or is damaged, is run again from its tokens.
  const Status used =
      db.CreateSession(engine_->spec(), stored.tokens, {.context = context}).status();
  if (used.code() == StatusCode::kNotFound) return used;
  return stored;
}

Result<Remembered> Conversations::Recall(const std::string& tenant,
                                         std::span<const llama::ChatMessage> messages,
                                         std::span<const TokenId> context,
                                         const llama::TokenizeLimits& limits) {
  ATTNDB_RETURN_IF_ERROR(ListTurns(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> digests, DigestsOf(messages));
  for (size_t reply = messages.size() - 1; reply-- > 1;) {
    if (messages[reply].role != kAssistantRole) continue;
    std::optional<Matched> best;  // Among several replies, the one that says most of the words.
    for (const std::string& id : TurnsOf({tenant, digests[reply - 1]})) {
      KeptText kept = TurnText(tenant, id);
      if (kept.tokens.empty()) continue;
      ATTNDB_ASSIGN_OR_RETURN(const bool is_about,
                              llama::BeginsWithText(*engine_, kept.tokens, context));
      if (!is_about) continue;
      const size_t num_context = CommonLength(context, kept.tokens);
      ATTNDB_ASSIGN_OR_RETURN(auto matched, MatchReply(std::move(kept), num_context,
                                                       messages.first(reply + 1), limits));
      if (matched && (!best || matched->num_bytes > best->num_bytes)) best = std::move(matched);
    }
    if (best) return Remembered{reply + 1, std::move(best->tokens), std::move(best->text)};
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

KeptText Conversations::TurnText(const std::string& tenant, const std::string& id) const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Live& live : live_) {
      if (live.tenant == tenant && live.id == id) return *live.kept;
    }
  }
  const Result<DB> db = HandleOf(tenant);
  Result<KeptText> stored = db.ok() ? StoredText(*db, id) : db.status();
  return stored.ok() ? *std::move(stored) : KeptText();
}

// Where the turn's layout says nothing of a reply, the reply begins behind the assistant's last
// header.
Result<std::optional<size_t>> Conversations::BeginOfReply(
    const KeptText& kept, size_t num_context, std::span<const llama::ChatMessage> messages) const {
  const auto nothing = std::optional<size_t>();
  const auto is_reply = [](const auto& message) { return message.role == kAssistantRole; };
  const auto num_replies = static_cast<size_t>(std::ranges::count_if(messages, is_reply));
  const std::vector<TextMessage>& said = kept.text.messages;
  if (!said.empty() && said.back().role == TextRole::kAssistant) {
    const auto is_own = [&](const TextMessage& message) {
      return message.role == TextRole::kAssistant && message.tokens.begin >= num_context;
    };
    if (static_cast<size_t>(std::ranges::count_if(said, is_own)) > num_replies) return nothing;
    return std::optional<size_t>(said.back().tokens.begin);
  }
  const auto asked = messages.subspan(messages.size() - 2, 1);
  ATTNDB_ASSIGN_OR_RETURN(const auto header, engine_->Conversation(asked, asked.size()));
  if (header.empty()) return nothing;
  const std::vector<TokenId>& tokens = kept.tokens;
  const auto begin = std::find_end(tokens.begin(), tokens.end(), header.begin(), header.end());
  if (begin == tokens.end()) return nothing;
  // Without a template the header is the end of a line, of which words may have any number.
  const auto own = std::span<const TokenId>(tokens).subspan(num_context);
  if (engine_->info().has_chat_template && CountOf(header, own) > num_replies) return nothing;
  return std::optional(static_cast<size_t>(begin - tokens.begin()) + header.size());
}

Result<std::optional<Conversations::Matched>> Conversations::MatchReply(
    KeptText kept, size_t num_context, std::span<const llama::ChatMessage> messages,
    const llama::TokenizeLimits& limits) const {
  const auto nothing = std::optional<Matched>();
  ATTNDB_ASSIGN_OR_RETURN(const auto begin, BeginOfReply(kept, num_context, messages));
  if (!begin) return nothing;
  const size_t num_asked = *begin;
  std::vector<TokenId>& tokens = kept.tokens;
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
  const auto matched = [&] {
    TextLayout layout = llama::FirstOf(std::move(kept.text), num_asked);
    llama::AddReply({num_asked, tokens.size()}, &layout);
    return std::optional(Matched{std::move(tokens), std::move(layout), num_bytes});
  };
  if (num_bytes == words.size()) return matched();
  // A reply that was cut: its last token was not run.
  const llama::PromptPart rest = {"", std::string_view(words).substr(num_bytes)};
  ATTNDB_ASSIGN_OR_RETURN(auto joined, engine_->Join(tokens, std::span(&rest, 1),
                                                     {.keeps_before = true, .limits = limits}));
  tokens = std::move(joined.tokens);
  ATTNDB_ASSIGN_OR_RETURN(text, text_of_reply());
  if (text != words) return nothing;
  return matched();
}

void Conversations::Keep(const std::string& tenant, const std::string& id, Session session,
                         std::vector<TokenId> tokens, std::optional<StoreOptions> store_options,
                         const TextLayout& text) {
  const Result<DB> db = HandleOf(tenant);
  if (!db.ok()) return;
  StoreOptions options = store_options.value_or(StoreOptions{.ttl = options_.ttl});
  options.name = id;
  options.text_layout = text;
  Result<PendingStore> store = db->StoreAsync(session, tokens, options);
  const auto held = std::make_shared<const KeptText>(KeptText{std::move(tokens), text});

  const std::lock_guard<std::mutex> lock(mutex_);
  NoteStore(Key(tenant, id), std::move(store), held);
  NoteTurn(tenant, id, /*is_newest=*/true);
  // The turn that this one continues is all in it.
  std::erase_if(live_, [&](const Live& live) {
    return live.tenant == tenant && BeginsWith(held->tokens, live.kept->tokens);
  });
  live_.push_front({tenant, id, held, std::move(session)});
  while (live_.size() > options_.max_live) live_.pop_back();
}

void Conversations::Keep(const std::string& tenant, const std::string& id, Session session,
                         std::vector<TokenId> tokens) {
  Keep(tenant, id, std::move(session), std::move(tokens), std::nullopt, {});
}

void Conversations::NoteStore(const Key& key, Result<PendingStore> store,
                              std::shared_ptr<const KeptText> kept) {
  for (auto entry = stores_.begin(); entry != stores_.end();) {
    const PendingStore& under_way = entry->second.store;
    const bool is_done = under_way.done();
    const Status status = is_done ? under_way.Wait().status() : Status::Ok();
    if (is_done && !status.ok()) NoteFailure(entry->first, status);
    entry = is_done ? stores_.erase(entry) : std::next(entry);  // The store itself knows it now.
  }
  ForgetFailure(key);
  if (store.ok()) {  // A name may be stored again.
    stores_.insert_or_assign(key, UnderStore{*std::move(store), std::move(kept)});
  } else {
    NoteFailure(key, store.status());
  }
}

void Conversations::NoteFailure(const Key& key, const Status& status) {
  failed_.emplace_back(key, status);
  if (failed_.size() > kMaxFailed) failed_.pop_front();
}

bool Conversations::ForgetFailure(const Key& key) {
  const auto found = stores_.find(key);
  const bool has_failed =
      found != stores_.end() && found->second.store.done() && !found->second.store.Wait().ok();
  if (has_failed) stores_.erase(found);
  const auto is_its = [&key](const auto& failure) { return failure.first == key; };
  return std::erase_if(failed_, is_its) > 0 || has_failed;
}

TurnState Conversations::StateOf(const std::string& tenant, const std::string& id, Status* error) {
  const Key key(tenant, id);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (under_way_.contains(key)) return TurnState::kPending;
    const auto found = stores_.find(key);
    const bool is_kept = found != stores_.end();
    if (is_kept && !found->second.store.done()) return TurnState::kPending;
    if (const std::optional<Status> failure = FailureOf(key)) {
      *error = *failure;
      return TurnState::kFailed;
    }
    if (is_kept) return TurnState::kDurable;
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
    if (found != stores_.end()) store = found->second.store;
    for (const auto& [failed, status] : failed_) {
      if (!store && failed == key) return status;
    }
  }
  return store ? store->Wait().status() : Status::Ok();
}

bool Conversations::IsBeingStored(const std::string& tenant, const std::string& id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = stores_.find({tenant, id});
  return found != stores_.end() && !found->second.store.done();
}

Status Conversations::Drop(const std::string& tenant, const std::string& context) {
  (void)WaitFor(tenant, context);
  const auto unstored = UnstoredText(tenant, context);
  ATTNDB_ASSIGN_OR_RETURN(const DB db, HandleOf(tenant));
  const Result<std::vector<TokenId>> tokens = db.Tokens(context);  // Fails if they are damaged.
  const Status status = db.Drop(context);
  if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
  std::list<Live> dropped;  // Closed without the mutex.
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool was_failure = ForgetFailure({tenant, context});
  if (!status.ok() && !was_failure) return status;
  for (auto next = live_.begin(); next != live_.end();) {
    const auto live = next++;
    if (live->tenant != tenant) continue;
    if (live->kept == unstored || (tokens.ok() && live->kept->tokens == *tokens)) {
      dropped.splice(dropped.begin(), live_, live);
    }
  }
  return Status::Ok();
}

Status Conversations::Rename(const std::string& tenant, const std::string& context,
                             const std::string& name) {
  (void)WaitFor(tenant, context);
  (void)WaitFor(tenant, name);
  ATTNDB_ASSIGN_OR_RETURN(const DB db, HandleOf(tenant));
  ATTNDB_RETURN_IF_ERROR(db.Rename(context, name));
  const std::lock_guard<std::mutex> lock(mutex_);
  ForgetFailure({tenant, name});  // The name has another context now.
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
  for (const auto& [key, under_way] : stores_) {
    if (!under_way.store.done()) stores.push_back(under_way.store);
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
