// Calls of the C ABI by which an engine runs a layer: K and V go in, attention comes out.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/c_api_call.h"
#include "api/c_api_convert.h"
#include "attndb/c_api.h"
#include "attndb/result.h"
#include "attndb/session.h"
#include "attndb/session_batch.h"
#include "attndb/stats.h"
#include "attndb/status.h"
#include "attndb/tensor_view.h"

using attndb::MutableTensorView;
using attndb::Session;
using attndb::Status;
using attndb::TensorView;
using attndb::internal::Call;
using attndb::internal::CopyOut;
using attndb::internal::NotNull;
using attndb::internal::ToMutableView;
using attndb::internal::ToView;

extern "C" {

attndb_code attndb_session_append(attndb_session* session, uint32_t layer, const attndb_tensor* k,
                                  const attndb_tensor* v) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView keys, ToView(k, "k"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView values, ToView(v, "v"));
    return session->session.Append(layer, keys, values);
  });
}

attndb_code attndb_session_attend(attndb_session* session, uint32_t layer, const attndb_tensor* q,
                                  const attndb_tensor* out, float* lse) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const MutableTensorView outputs, ToMutableView(out, "out"));
    return session->session.Attend(layer, queries, outputs, lse);
  });
}

attndb_code attndb_session_attend_part(attndb_session* session, uint32_t layer,
                                       const attndb_tensor* q, const attndb_tensor* out, float* lse,
                                       uint32_t part, uint32_t num_parts) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const MutableTensorView outputs, ToMutableView(out, "out"));
    return session->session.AttendPart(layer, queries, outputs, lse, part, num_parts);
  });
}

attndb_code attndb_session_search(attndb_session* session, uint32_t layer, const attndb_tensor* q,
                                  uint64_t* num_found, uint32_t** tokens, float** scores) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_RETURN_IF_ERROR(NotNull(num_found, "num_found"));
    ATTNDB_RETURN_IF_ERROR(NotNull(tokens, "tokens"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<attndb::CriticalTokens> found,
                            session->session.Search(layer, queries));
    std::vector<uint32_t> all_tokens;
    std::vector<float> all_scores;
    for (const attndb::CriticalTokens& head : found) {
      all_tokens.insert(all_tokens.end(), head.tokens.begin(), head.tokens.end());
      all_scores.insert(all_scores.end(), head.scores.begin(), head.scores.end());
    }
    void* tokens_copy = nullptr;
    ATTNDB_RETURN_IF_ERROR(
        CopyOut(all_tokens.data(), all_tokens.size() * sizeof(uint32_t), &tokens_copy));
    if (scores != nullptr) {
      void* scores_copy = nullptr;
      const Status status =
          CopyOut(all_scores.data(), all_scores.size() * sizeof(float), &scores_copy);
      if (!status.ok()) {
        attndb_free(tokens_copy);
        return status;
      }
      *scores = static_cast<float*>(scores_copy);
    }
    *tokens = static_cast<uint32_t*>(tokens_copy);
    for (size_t i = 0; i < found.size(); ++i) num_found[i] = found[i].tokens.size();
    return Status();
  });
}

attndb_code attndb_session_update(attndb_session* session, const attndb_tensor* q,
                                  const attndb_tensor* k, const attndb_tensor* v, uint32_t layer) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView keys, ToView(k, "k"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView values, ToView(v, "v"));
    return session->session.Update(queries, keys, values, layer);
  });
}

attndb_code attndb_session_attention(attndb_session* session, const attndb_tensor* q,
                                     uint32_t layer, const attndb_tensor* out) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const MutableTensorView outputs, ToMutableView(out, "out"));
    return session->session.Attention(queries, layer, outputs);
  });
}

attndb_code attndb_attend_batch(attndb_session* const* sessions, const int64_t* num_rows,
                                size_t num_sessions, uint32_t layer, const attndb_tensor* q,
                                const attndb_tensor* out, float* lse, attndb_code* codes) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(sessions, "sessions"));
    ATTNDB_RETURN_IF_ERROR(NotNull(num_rows, "num_rows"));
    std::vector<Session*> pointers;
    for (size_t i = 0; i < num_sessions; ++i) {
      ATTNDB_RETURN_IF_ERROR(NotNull(sessions[i], "an element of sessions"));
      pointers.push_back(&sessions[i]->session);
    }
    ATTNDB_ASSIGN_OR_RETURN(const TensorView queries, ToView(q, "q"));
    ATTNDB_ASSIGN_OR_RETURN(const MutableTensorView outputs, ToMutableView(out, "out"));
    std::vector<Status> statuses;
    ATTNDB_RETURN_IF_ERROR(attndb::AttendBatch(pointers, {num_rows, num_sessions}, layer, queries,
                                               outputs, lse,
                                               codes == nullptr ? nullptr : &statuses));
    for (size_t i = 0; i < statuses.size(); ++i) {
      codes[i] = static_cast<attndb_code>(statuses[i].code());
    }
    return Status::Ok();
  });
}

attndb_code attndb_session_read_kv(const attndb_session* session, uint32_t layer, uint64_t begin,
                                   uint64_t end, const attndb_tensor* k, const attndb_tensor* v) {
  return Call([&]() -> Status {
    ATTNDB_RETURN_IF_ERROR(NotNull(session, "session"));
    MutableTensorView keys;
    MutableTensorView values;
    if (k != nullptr) {
      ATTNDB_ASSIGN_OR_RETURN(keys, ToMutableView(k, "k"));
    }
    if (v != nullptr) {
      ATTNDB_ASSIGN_OR_RETURN(values, ToMutableView(v, "v"));
    }
    return session->session.ReadKv(layer, {begin, end}, keys, values);
  });
}

}  // extern "C"
