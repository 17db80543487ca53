#include "server/batch/conversations.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "attndb/context_name.h"
#include "engines/llama/window.h"
#include "server/batch/turn.h"
#include "server/batch/turn_id.h"

namespace attndb::server {
namespace {

constexpr std::string_view kDefaultTenant = "default";
constexpr size_t kMaxTurns = 256;    // That answer the same messages: ids of the last ones.
constexpr size_t kMaxReplies = 64;   // The last of these that are looked at: kMaxChoices.
constexpr size_t kLeastCommon = 32;  // First tokens that a prompt shares with its predecessor.
constexpr size_t kMaxLongest = 4;    // Predecessors that share as many tokens with a prompt.
constexpr size_t kMaxStored = 16;    // The last contexts that are looked at for them.

bool BeginsWith(std::span<const TokenId> tokens, std::span<const TokenId> beginning) {
  return CommonLength(beginning, tokens) == beginning.size();
}

// A stored context, and how many first tokens of a prompt it has.
struct Beginning {
  ContextInfo context;
  uint64_t num_tokens = 0;
};

// The context with the most first tokens of a prompt, if these are kLeastCommon. It is not used:
// the store counts nothing, and its life is not longer.
std::optional<Beginning> BeginningOf(const DB& db, const ModelSpec& spec,
                                     std::span<const TokenId> prompt) {
  const Result<PrefixExplain> found = db.ExplainPrefix(spec, prompt);
  if (!found.ok() || found->num_reused < kLeastCommon) return std::nullopt;
  Result<ContextInfo> context = db.Describe(found->context);
  if (!context.ok()) return std::nullopt;
  return Beginning{*std::move(context), found->num_reused};
}

// The text that the store has under a name.
Result<KeptText> StoredText(const DB& db, const std::string& context) {
  ATTNDB_ASSIGN_OR_RETURN(ContextInfo info, db.Describe(context));
  KeptText stored;
  // By its id: the name may be given to another context between the two calls.
  ATTNDB_ASSIGN_OR_RETURN(stored.tokens, db.Tokens(IdName(info.id)));
  // It keeps its id when it grows.
  if (info.num_tokens == stored.tokens.size()) {
    stored.text = std::move(info.text_layout);
    stored.left_out = llama::PiecesOf(info.cuts, stored.text);
  }
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
                                          const llama::WindowOptions& window,
                                          std::span<const TokenRange> left_out) {
  ATTNDB_ASSIGN_OR_RETURN(const DB db, HandleOf(tenant));
  SessionOptions options;
  options.plan = plan;
  Result<SessionStart> stored =
      llama::CreateSessionIn(window, db, engine_->spec(), prompt, options, left_out);
  const uint64_t num_known = stored.ok() ? prompt.size() - stored->rest.size() : 0;
  if (auto live = ForkLive(tenant, prompt, num_known, plan, window, left_out))
    return *std::move(live);
  ATTNDB_RETURN_IF_ERROR(stored.status());
  if (!left_out.empty()) ATTNDB_RETURN_IF_ERROR(llama::LeaveOut(left_out, &stored->session));
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
  const std::optional<Status> failure = stores_.FailureOf({live.tenant, live.id});
  return failure && failure->code() == StatusCode::kCorruption;
}

std::optional<Continuation> Conversations::ForkLive(const std::string& tenant,
                                                    std::span<const TokenId> prompt,
                                                    uint64_t num_known, const std::string& plan,
                                                    const llama::WindowOptions& window,
                                                    std::span<const TokenRange> left_out) {
  const llama::PromptSize size = {prompt.size() - llama::NumTokensOf(left_out), left_out};
  const std::lock_guard<std::mutex> lock(mutex_);
  Live* best = nullptr;
  uint64_t best_length = num_known;
  for (Live& live : live_) {
    if (live.tenant != tenant || IsLost(live)) continue;
    const uint64_t common = std::min(CommonLength(live.kept->tokens, prompt), prompt.size() - 1);
    const llama::LostTokens lost = {live.session.cuts(), live.kept->left_out};
    const uint64_t length = llama::ReusableTokens(window, lost, common, size);
    if (length <= best_length) continue;
    best = &live;
    best_length = length;
  }
  if (best == nullptr) return std::nullopt;
  std::optional<Session> fork = ForkOf(best->session, best_length, plan);
  if (!fork) return std::nullopt;
  if (!left_out.empty() && !llama::LeaveOut(left_out, &*fork).ok()) return std::nullopt;
  const auto rest = prompt.subspan(best_length);
  ReusePrice price = PriceOf(*fork);
  if (price.way == ReuseWay::kRun) price.way = ReuseWay::kDisk;  // Only parts of it are there.
  return Continuation{
      *std::move(fork), {rest.begin(), rest.end()}, price, price.way == ReuseWay::kDisk};
}

std::shared_ptr<const KeptText> Conversations::UnstoredText(const std::string& tenant,
                                                            const std::string& context) const {
  const StoreLedger::Unstored unstored = stores_.UnstoredOf({tenant, context});
  if (unstored.text == nullptr || unstored.takes_name) return unstored.text;
  const Result<DB> db = HandleOf(tenant);
  const Status stored = db.ok() ? db->Describe(context).status() : db.status();
  return stored.code() == StatusCode::kNotFound ? unstored.text : nullptr;
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

std::string Conversations::TitleOf(const std::string& tenant, const std::string& context) const {
  if (const auto unstored = UnstoredText(tenant, context)) {
    return unstored->text.form == TextForm::kDocument ? std::string() : unstored->title;
  }
  const Result<DB> db = HandleOf(tenant);
  if (!db.ok()) return {};
  Result<ContextInfo> stored = db->Describe(context);
  if (!stored.ok() || stored->text_layout.form == TextForm::kDocument) return {};
  return std::move(stored->title);
}

Result<std::vector<KeptText>> Conversations::Candidates(const std::string& tenant,
                                                        const std::string& digest) {
  ATTNDB_RETURN_IF_ERROR(ListTurns(tenant));
  return TurnTexts({tenant, digest});
}

std::vector<KeptText> Conversations::Longest(const std::string& tenant,
                                             std::span<const TokenId> prompt) const {
  struct Found {
    std::shared_ptr<const KeptText> text;
    size_t num_same = 0;
  };
  std::vector<Found> found;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Live& live : live_) {
      if (live.tenant == tenant) found.push_back({live.kept});
    }
  }
  for (KeptText& stored : LastStored(tenant, prompt)) {
    found.push_back({std::make_shared<const KeptText>(std::move(stored))});
  }
  size_t num_same = kLeastCommon;
  for (Found& one : found) {
    one.num_same = CommonLength(one.text->tokens, prompt);
    num_same = std::max(num_same, one.num_same);
  }
  std::erase_if(found, [num_same](const Found& one) { return one.num_same < num_same; });
  std::ranges::stable_sort(found, std::ranges::greater(),
                           [](const Found& one) { return one.text->tokens.size(); });
  if (found.size() > kMaxLongest) found.resize(kMaxLongest);
  std::vector<KeptText> texts;
  for (const Found& one : found) texts.push_back(*one.text);
  return texts;
}

std::vector<KeptText> Conversations::LastStored(const std::string& tenant,
                                                std::span<const TokenId> prompt) const {
  const Result<DB> db = HandleOf(tenant);
  if (!db.ok()) return {};
  const std::optional<Beginning> found = BeginningOf(*db, engine_->spec(), prompt);
  if (!found) return {};
  Result<std::vector<ContextInfo>> contexts = db->List();
  if (!contexts.ok()) return {};
  // The turns of a conversation are no older than the one that was found.
  std::erase_if(*contexts, [&](const ContextInfo& context) {
    return context.id < found->context.id || context.num_tokens < found->num_tokens;
  });
  std::ranges::sort(*contexts, std::ranges::greater(), &ContextInfo::id);
  if (contexts->size() > kMaxStored) contexts->resize(kMaxStored);
  std::vector<KeptText> texts;
  for (const ContextInfo& context : *contexts) {
    Result<KeptText> text = StoredText(*db, IdName(context.id));
    if (text.ok()) texts.push_back(*std::move(text));
  }
  return texts;
}

std::shared_ptr<const KeptText> Conversations::LiveLike(const std::string& tenant,
                                                        std::span<const TokenId> prompt,
                                                        const TextLayout& text) const {
  std::vector<std::shared_ptr<const KeptText>> texts;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Live& live : live_) {
      const size_t num_messages = live.kept->text.messages.size();  // 0: unknown.
      const bool is_shorter = num_messages > 0 && num_messages < text.messages.size();
      if (live.tenant == tenant && is_shorter) texts.push_back(live.kept);
    }
  }
  std::shared_ptr<const KeptText> best;
  size_t num_best = 0;
  for (const std::shared_ptr<const KeptText>& kept : texts) {
    const size_t num_same = CommonLength(kept->tokens, prompt);
    if (num_same <= num_best) continue;
    best = kept;
    num_best = num_same;
  }
  return best;
}

std::shared_ptr<const KeptText> Conversations::StoredLike(const std::string& tenant,
                                                          std::span<const TokenId> prompt,
                                                          const TextLayout& text) const {
  const Result<DB> db = HandleOf(tenant);
  if (!db.ok() || text.messages.empty()) return nullptr;
  const std::optional<Beginning> found = BeginningOf(*db, engine_->spec(), prompt);
  if (!found) return nullptr;
  ContextInfo context = found->context;
  for (size_t i = 0; i < kMaxStored; ++i) {
    const size_t num_messages = context.text_layout.messages.size();  // 0: unknown.
    if (num_messages == 0) return nullptr;
    if (num_messages < text.messages.size()) {
      Result<KeptText> stored = StoredText(*db, IdName(context.id));
      return stored.ok() ? std::make_shared<const KeptText>(*std::move(stored)) : nullptr;
    }
    if (context.continues == ContextId::kNone) return nullptr;
    Result<ContextInfo> earlier = db->Describe(IdName(context.continues));
    if (!earlier.ok()) return nullptr;
    context = *std::move(earlier);
  }
  return nullptr;
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
  std::deque<std::string>& ids = turns_[{tenant, *digest}];
  if (std::ranges::find(ids, id) != ids.end()) return;
  if (is_newest) {
    ids.push_back(id);
    if (ids.size() > kMaxTurns) ids.pop_front();
  } else if (ids.size() < kMaxTurns) {
    ids.push_front(id);
  }
}

void Conversations::ForgetTurn(const std::string& tenant, const std::string& id) {
  const std::optional<std::string> digest = DigestIn(id);
  const auto found = digest ? turns_.find({tenant, *digest}) : turns_.end();
  if (found == turns_.end()) return;
  std::erase(found->second, id);
  if (found->second.empty()) turns_.erase(found);
}

std::vector<std::string> Conversations::TurnsOf(const Key& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = turns_.find(key);
  if (found == turns_.end()) return {};
  return {found->second.rbegin(), found->second.rend()};
}

std::vector<KeptText> Conversations::TurnTexts(const Key& key) {
  std::vector<KeptText> texts;
  for (const std::string& id : TurnsOf(key)) {
    if (texts.size() == kMaxReplies) break;
    Result<KeptText> text = TurnText(key.first, id);
    if (text.ok()) {
      texts.push_back(*std::move(text));
    } else if (text.status().code() == StatusCode::kNotFound) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ForgetTurn(key.first, id);
    }
  }
  return texts;
}

Result<KeptText> Conversations::TurnText(const std::string& tenant, const std::string& id) const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Live& live : live_) {
      if (live.tenant == tenant && live.id == id) return *live.kept;
    }
  }
  // Its session may be gone from memory before its Store ends.
  if (const auto unstored = UnstoredText(tenant, id)) return *unstored;
  ATTNDB_ASSIGN_OR_RETURN(const DB db, HandleOf(tenant));
  return StoredText(db, id);
}

StoreTicket Conversations::Keep(const std::string& tenant, const std::string& id, Session session,
                                std::vector<TokenId> tokens,
                                std::optional<StoreOptions> store_options, const TextLayout& text,
                                const std::string& title) {
  const Result<DB> db = HandleOf(tenant);
  if (!db.ok()) return StoreTicket(db.status());
  StoreOptions options = store_options.value_or(StoreOptions{.ttl = options_.ttl});
  options.name = id;
  options.text_layout = text;
  if (options.title.empty()) options.title = title;
  const StoreTicket ticket(db->StoreAsync(session, tokens, options));
  const auto held = std::make_shared<const KeptText>(
      KeptText{std::move(tokens), text, options.title, llama::PiecesOf(session.cuts(), text)});

  std::list<Live> ended;  // Closed without the mutex.
  const std::lock_guard<std::mutex> lock(mutex_);
  stores_.Note({tenant, id}, ticket, held, options.replace);
  NoteTurn(tenant, id, /*is_newest=*/true);
  // The turn that this one continues is all in it.
  for (auto next = live_.begin(); next != live_.end();) {
    const auto live = next++;
    if (live->tenant != tenant || !BeginsWith(held->tokens, live->kept->tokens)) continue;
    ended.splice(ended.begin(), live_, live);
  }
  live_.push_front({tenant, id, held, std::move(session)});
  while (live_.size() > options_.max_live) {
    ended.splice(ended.begin(), live_, std::prev(live_.end()));
  }
  return ticket;
}

StoreTicket Conversations::Keep(const std::string& tenant, const std::string& id, Session session,
                                std::vector<TokenId> tokens) {
  return Keep(tenant, id, std::move(session), std::move(tokens), std::nullopt, {});
}

TurnState Conversations::StateOf(const std::string& tenant, const std::string& id, Status* error) {
  const StoreLedger::Key key(tenant, id);
  if (stores_.IsUnderWay(key) || stores_.IsPending(key)) return TurnState::kPending;
  if (const std::optional<Status> failure = stores_.FailureOf(key)) {
    *error = *failure;
    return TurnState::kFailed;
  }
  const Result<DB> db = HandleOf(tenant);
  return db.ok() && db->Describe(id).ok() ? TurnState::kDurable : TurnState::kUnknown;
}

std::shared_ptr<void> Conversations::NoteUnderWay(const std::string& tenant,
                                                  const std::string& id) {
  return stores_.NoteUnderWay({tenant, id});
}

Status Conversations::WaitFor(const std::string& tenant, const std::string& id) {
  return stores_.WaitFor({tenant, id});
}

bool Conversations::IsBeingStored(const std::string& tenant, const std::string& id) const {
  return stores_.IsPending({tenant, id});
}

std::vector<PendingStore> Conversations::PendingStoresOf(const std::string& tenant,
                                                         const std::string& id) const {
  return stores_.PendingOf({tenant, id});
}

Status Conversations::Drop(const std::string& tenant, const std::string& context) {
  (void)WaitFor(tenant, context);
  ATTNDB_ASSIGN_OR_RETURN(const DB db, HandleOf(tenant));
  const Result<std::vector<TokenId>> tokens = db.Tokens(context);  // Fails if they are damaged.
  const Status status = db.Drop(context);
  if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
  std::list<Live> dropped;  // Closed without the mutex.
  const std::lock_guard<std::mutex> lock(mutex_);
  const StoreLedger::Forgotten failed = stores_.ForgetFailure({tenant, context});
  if (!status.ok() && !failed.was_failure) return status;
  ForgetTurn(tenant, context);
  for (auto next = live_.begin(); next != live_.end();) {
    const auto live = next++;
    if (live->tenant != tenant) continue;
    if (live->kept == failed.text || (tokens.ok() && live->kept->tokens == *tokens)) {
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
  // The one name has another context now, the other one has none.
  stores_.ForgetFailure({tenant, name});
  stores_.ForgetFailure({tenant, context});
  return Status::Ok();
}

void Conversations::DropLive() {
  std::list<Live> dropped;  // Closed without the mutex.
  const std::lock_guard<std::mutex> lock(mutex_);
  dropped.swap(live_);
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

std::vector<PendingStore> Conversations::PendingStores() const { return stores_.Pending(); }

void Conversations::WaitForStores() {
  for (const PendingStore& store : PendingStores()) (void)store.Wait();
}

size_t Conversations::num_live() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return live_.size();
}

size_t Conversations::num_pending() const { return PendingStores().size(); }

}  // namespace attndb::server
