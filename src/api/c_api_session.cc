// Calls of the C ABI about a session as a whole: its contents, its plan, its copies.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "api/c_api_call.h"
#include "api/c_api_convert.h"
#include "api/c_api_json.h"
#include "api/stats_json.h"
#include "attndb/c_api.h"
#include "attndb/options.h"
#include "attndb/result.h"
#include "attndb/session.h"
#include "attndb/stats.h"
#include "attndb/status.h"
#include "attndb/types.h"

using attndb::Session;
using attndb::Status;
using attndb::internal::Call;
using attndb::internal::CopyOut;
using attndb::internal::CutsJson;
using attndb::internal::NotNull;
using attndb::internal::SessionOut;
using attndb::internal::TextOut;
using attndb::internal::ToDropOptions;
using attndb::internal::ToJson;
using attndb::internal::ToRanges;

extern "C" {

void attndb_session_free(attndb_session* session) {
  std::unique_ptr<attndb_session>{session}.reset();
}

uint64_t attndb_session_num_tokens(const attndb_session* session) {
  return session == nullptr ? 0 : session->session.num_tokens();
}

uint64_t attndb_session_num_reused(const attndb_session* session) {
  return session == nullptr ? 0 : session->session.num_reused();
}

int64_t attndb_session_context_id(const attndb_session* session) {
  return session == nullptr ? 0 : static_cast<int64_t>(session->session.context_id());
}

int64_t attndb_session_next_position(const attndb_session* session) {
  return session == nullptr ? 0 : session->session.next_position();
}

uint64_t attndb_session_memory_bytes(const attndb_session* session) {
  return session == nullptr ? 0 : session->session.memory_bytes();
}

attndb_code attndb_session_spec(const attndb_session* session, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    return TextOut(ToJson(session->session.spec()), json);
  });
}

attndb_code attndb_session_crop(attndb_session* session, uint64_t num_tokens) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    return session->session.Crop(num_tokens);
  });
}

attndb_code attndb_session_set_filter(attndb_session* session, const attndb_token_range* ranges,
                                      size_t num_ranges) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<attndb::TokenRange> filter,
                            ToRanges(ranges, num_ranges, "ranges"));
    return session->session.SetFilter(filter);
  });
}

attndb_code attndb_session_drop_oldest(attndb_session* session, uint64_t n,
                                       const attndb_drop_options* options) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::DropOptions drop, ToDropOptions(options));
    return session->session.DropOldest(n, drop);
  });
}

uint64_t attndb_session_num_dropped(const attndb_session* session) {
  return session == nullptr ? 0 : session->session.num_dropped();
}

attndb_code attndb_session_cuts(const attndb_session* session, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    return TextOut(CutsJson(session->session.cuts()).text, json);
  });
}

attndb_code attndb_session_heaviest_tokens(attndb_session* session, uint64_t begin, uint64_t end,
                                           uint64_t num_tokens, attndb_token_range** ranges,
                                           size_t* num_ranges) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(ranges, "ranges"));
    ATTNDB_RETURN_IF_ERROR(NotNull(num_ranges, "num_ranges"));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<attndb::TokenRange> found,
                            session->session.HeaviestTokens({begin, end}, num_tokens));
    std::vector<attndb_token_range> list;
    for (const attndb::TokenRange& range : found) list.push_back({range.begin, range.end});
    void* copy = nullptr;
    ATTNDB_RETURN_IF_ERROR(CopyOut(list.data(), list.size() * sizeof(list[0]), &copy));
    *ranges = static_cast<attndb_token_range*>(copy);
    *num_ranges = list.size();
    return Status();
  });
}

attndb_code attndb_session_rebase(attndb_session* session, int64_t position) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    return session->session.Rebase(position);
  });
}

attndb_code attndb_session_await_derived(attndb_session* session, uint32_t layer) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    return session->session.AwaitDerived(layer);
  });
}

int attndb_session_awaits_derived(const attndb_session* session, uint32_t layer) {
  return session != nullptr && session->session.awaits_derived(layer) ? 1 : 0;
}

attndb_code attndb_session_fork(const attndb_session* session, attndb_session** fork) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(fork, "fork"));
    ATTNDB_ASSIGN_OR_RETURN(Session copy, session->session.Fork());
    return SessionOut(std::move(copy), fork);
  });
}

attndb_code attndb_session_reset(attndb_session* session) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    session->session.Reset();
    return Status();
  });
}

attndb_code attndb_session_set_plan(attndb_session* session, const char* plan) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(plan, "plan"));
    return session->session.SetPlan(plan);
  });
}

attndb_code attndb_session_explain(const attndb_session* session, char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    return TextOut(session->session.Explain().ToJson(), json);
  });
}

attndb_code attndb_session_explain_layer(const attndb_session* session, uint32_t layer,
                                         char** json) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(json, "json"));
    ATTNDB_ASSIGN_OR_RETURN(const attndb::LayerExplain explain, session->session.Explain(layer));
    return TextOut(ToJson(explain), json);
  });
}

}  // extern "C"
