#include "tests/property/store_model.h"

#include <algorithm>

namespace attndb::test {

uint64_t CommonLength(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<uint64_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::vector<ContextKey> StoreModel::ContextsOf(const std::string& tenant) const {
  std::vector<ContextKey> ids;
  for (const auto& [id, context] : contexts_) {
    if (context.origin.tenant == tenant) ids.push_back(id);
  }
  return ids;
}

ContextKey StoreModel::Find(const std::string& tenant, const std::string& name) const {
  for (const auto& [id, context] : contexts_) {
    if (context.origin.tenant == tenant && context.name == name) return id;
  }
  return kNoContext;
}

ModelContext* StoreModel::Get(const ContextKey& id) {
  const auto found = contexts_.find(id);
  return found == contexts_.end() ? nullptr : &found->second;
}

void StoreModel::DeclareEqual(const std::string& tenant, const std::string& a,
                              const std::string& b) {
  equal_[tenant].emplace(a, b);
  equal_[tenant].emplace(b, a);
}

bool StoreModel::SameModel(const std::string& tenant, const std::string& a,
                           const std::string& b) const {
  const auto declared = equal_.find(tenant);
  if (declared == equal_.end()) return a == b;
  std::set<std::string> reached = {a};
  for (size_t size = 0; size != reached.size();) {
    size = reached.size();
    for (const auto& [from, to] : declared->second) {
      if (reached.contains(from)) reached.insert(to);
    }
  }
  return reached.contains(b);
}

bool StoreModel::IsExpired(const ModelContext& context, int64_t now_us) {
  return !context.pinned && context.ttl_seconds.has_value() &&
         now_us >= context.last_access_us + *context.ttl_seconds * 1'000'000;
}

uint64_t StoreModel::PrefixWith(const ContextKey& id, const Origin& origin,
                                std::span<const TokenId> tokens, int64_t now_us) const {
  const auto found = contexts_.find(id);
  if (found == contexts_.end()) return 0;
  const ModelContext& context = found->second;
  const bool is_usable = context.origin.tenant == origin.tenant &&
                         context.origin.first_position == origin.first_position &&
                         SameModel(origin.tenant, context.origin.fingerprint, origin.fingerprint) &&
                         !IsExpired(context, now_us);
  return is_usable ? CommonLength(tokens, context.tokens) : 0;
}

uint64_t StoreModel::LongestPrefix(const Origin& origin, std::span<const TokenId> tokens,
                                   int64_t now_us) const {
  uint64_t longest = 0;
  for (const auto& [id, context] : contexts_) {
    longest = std::max(longest, PrefixWith(id, origin, tokens, now_us));
  }
  return longest;
}

void StoreModel::Expire(const std::set<ContextKey>& in_use, int64_t now_us) {
  std::erase_if(contexts_, [&](const auto& entry) {
    return !in_use.contains(entry.first) && IsExpired(entry.second, now_us);
  });
}

StatusCode StoreModel::CheckStore(const StoreCall& call) const {
  if (call.tokens.empty()) return StatusCode::kInvalidArgument;
  if (Unchanged(call) != kNoContext || call.options.name.empty()) return StatusCode::kOk;
  const ContextKey holder = Find(call.origin.tenant, call.options.name);
  const bool is_own = holder == call.base && BaseGrows(call);
  return holder != kNoContext && !call.options.replace && !is_own ? StatusCode::kAlreadyExists
                                                                  : StatusCode::kOk;
}

ContextKey StoreModel::Unchanged(const StoreCall& call) const {
  const StoreOptions& options = call.options;
  const auto base = contexts_.find(call.base);
  const bool is_plain = options.name.empty() && !options.pin && !options.ttl.has_value();
  const bool has_all = call.num_shared == call.tokens.size() && base != contexts_.end() &&
                       base->second.tokens.size() == call.tokens.size();
  return is_plain && has_all ? call.base : kNoContext;
}

bool StoreModel::BaseGrows(const StoreCall& call) const {
  const auto found = contexts_.find(call.base);
  if (found == contexts_.end()) return false;
  const ModelContext& base = found->second;
  if (base.origin.fingerprint != call.origin.fingerprint || base.tokens.size() != call.num_shared) {
    return false;
  }
  const StoreOptions& options = call.options;
  const bool is_replaced = options.replace && !base.name.empty() && base.name == options.name;
  const bool is_dropped = options.drop_base && base.name.empty() && !base.pinned;
  return is_replaced || is_dropped;
}

void StoreModel::Store(const StoreCall& call, const ContextKey& id, int64_t now_us) {
  if (Unchanged(call) != kNoContext) return;
  const bool grows = BaseGrows(call);
  ModelContext context;
  context.origin = call.origin;
  context.name = call.options.name;
  context.tokens = call.tokens;
  if (call.options.ttl.has_value()) context.ttl_seconds = call.options.ttl->count();
  context.pinned = call.options.pin;
  context.created_us = grows ? contexts_.at(call.base).created_us : now_us;
  context.last_access_us = now_us;
  if (!call.options.name.empty()) {
    const ContextKey holder = Find(call.origin.tenant, call.options.name);
    if (holder != kNoContext) Drop(holder);
  }
  if (call.options.drop_base) {
    const ModelContext* const base = Get(call.base);
    const bool is_whole = base != nullptr && base->tokens.size() == call.num_shared;
    if (is_whole && base->name.empty() && !base->pinned) Drop(call.base);
  }
  contexts_[id] = std::move(context);
}

std::vector<ContextKey> StoreModel::EvictionOrder(const std::string& tenant,
                                                  const std::set<ContextKey>& in_use) const {
  std::vector<ContextKey> order;
  for (const ContextKey& id : ContextsOf(tenant)) {
    if (!in_use.contains(id) && !contexts_.at(id).pinned) order.push_back(id);
  }
  std::ranges::stable_sort(order, std::less(),
                           [&](const ContextKey& id) { return contexts_.at(id).last_access_us; });
  return order;
}

}  // namespace attndb::test
