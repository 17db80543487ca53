/* attndb for C and for every language that can call C: the whole of db.h and session.h.
 *
 * Errors:    a function that can fail returns an attndb_code; 0 is success. The message of the last
 *            failed call of this thread is attndb_last_error(). A failed call leaves its output
 *            arguments untouched. NULL where a pointer is required is ATTNDB_INVALID_ARGUMENT. No
 *            C++ exception crosses this interface.
 * Ownership: attndb_db*, attndb_session*: made by us, released by attndb_db_close and
 *            attndb_session_free (NULL is fine). char* and arrays that we return: attndb_free. We
 *            read your arguments during the call only, and they stay yours.
 * Growth:    each struct begins with struct_size. Set it to sizeof(the struct), and unused fields
 *            to zero: `attndb_store_options o = {.struct_size = sizeof o, .name =
 *            "book"};`. A newer library then knows which fields you have; zero means the default
 *            everywhere. A caller newer than the library is refused only if it sets a field that
 *            the library lacks.
 * Lists:     come as JSON text (UTF-8), field names as in stats.h, times in microseconds since
 *            1970.
 * Cost:      as the C++ call that the comment names: see db.h and session.h. A function without a
 *            comment has the name of its C++ call.
 * Threads:   as in db.h and session.h: a db is thread-safe, one thread at a time uses a session,
 *            except attndb_session_attend_part.
 */
#ifndef ATTNDB_C_API_H_
#define ATTNDB_C_API_H_

#include <stddef.h>
#include <stdint.h>

#include "attndb/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attndb_db attndb_db;
typedef struct attndb_session attndb_session;
typedef struct attndb_pending_store attndb_pending_store;

/* StatusCode of status.h, number by number. */
typedef enum attndb_code {
  ATTNDB_OK = 0,
  ATTNDB_INVALID_ARGUMENT = 1,
  ATTNDB_NOT_FOUND = 2,
  ATTNDB_ALREADY_EXISTS = 3,
  ATTNDB_FAILED_PRECONDITION = 4,
  ATTNDB_CORRUPTION = 5,
  ATTNDB_IO_ERROR = 6,
  ATTNDB_RESOURCE_EXHAUSTED = 7,
  ATTNDB_UNSUPPORTED = 8,
  ATTNDB_BUSY = 9,
  ATTNDB_READ_ONLY = 10,
  ATTNDB_CANCELLED = 11,
  ATTNDB_INTERNAL = 12,
  ATTNDB_OTHER_MODEL = 13
} attndb_code;

typedef enum attndb_dtype {
  ATTNDB_FLOAT32 = 0,
  ATTNDB_FLOAT16 = 1,
  ATTNDB_BFLOAT16 = 2
} attndb_dtype;

typedef enum attndb_rope_layout {
  ATTNDB_ROPE_NONE = 0,
  ATTNDB_ROPE_HALF = 1,
  ATTNDB_ROPE_INTERLEAVED = 2
} attndb_rope_layout;

/* A view of [rows, heads, dim]: element (r, h, d) at data + (r*strides[0] + h*strides[1] +
 * d*strides[2]) elements. Three zero strides mean C-contiguous. */
typedef struct attndb_tensor {
  size_t struct_size;
  void* data; /* Written to only if the view is an output. */
  int32_t dtype;
  int64_t shape[3];
  int64_t strides[3];
} attndb_tensor;

/* LayerSpec and Rope of types.h. */
typedef struct attndb_layer_spec {
  size_t struct_size;
  uint32_t num_q_heads;
  uint32_t num_kv_heads;
  uint32_t head_dim;
  uint32_t v_head_dim;
  float scale;             /* 0 = 1 / sqrt(head_dim). */
  float soft_cap;          /* 0 = none. */
  uint32_t sliding_window; /* 0 = all tokens. */
  int32_t rope_layout;
  uint32_t rope_dims;       /* 0 = all of head_dim. */
  double rope_base;         /* 0 = 10000. */
  const char* rope_scaling; /* NULL = none. */
  /* LayerSpec::denominator_logits: num_q_heads of them, or NULL and 0. */
  const float* denominator_logits;
  size_t num_denominator_logits;
} attndb_layer_spec;

/* ModelSpec of types.h. `layers` is an array of num_layers structs; its stride is the struct_size
 * of the first, which all of them must have. */
typedef struct attndb_model_spec {
  size_t struct_size;
  const attndb_layer_spec* layers;
  uint32_t num_layers;
  int32_t kv_dtype;
  const void* fingerprint;
  size_t fingerprint_bytes;
  int32_t unrotated_keys; /* 1 = ModelSpec::unrotated_keys. */
  const char* model_name; /* ModelSource. NULL = not known, here and in what follows. */
  const char* model_path;
} attndb_model_spec;

/* DBOptions of options.h. Where a call takes a pointer to it, NULL means all defaults. */
typedef struct attndb_db_options {
  size_t struct_size;
  int32_t read_only;
  int32_t must_exist;           /* 1 = ATTNDB_NOT_FOUND instead of making a new store. */
  const char* plan;             /* NULL = "full". */
  double query_sample;          /* 0 = the default; negative = none. */
  uint32_t dense_query_tokens;  /* 0 = the default. */
  uint32_t num_threads;         /* 0 or UINT32_MAX = all cores. */
  uint64_t host_memory_bytes;   /* 0 = three quarters of what is free. */
  int32_t no_background_builds; /* 1 = background_builds off: planes are built in memory only. */
  uint32_t background_threads;  /* 0 = one; UINT32_MAX = all cores. */
  int32_t fixed_prices;         /* 1 = measure_machine off. */
  const char* index;            /* NULL = none. */
  uint32_t kmeans_iterations;   /* 0 = the default. */
  uint32_t roar_keys_per_query; /* 0 = as published, here and in the two that follow. */
  uint32_t roar_max_degree;
  uint32_t roar_search_window;
  uint32_t max_training_queries;  /* 0 = the default; UINT32_MAX = all. */
  int32_t grow_graphs;            /* 1 = graphs of merged segments are not built anew. */
  uint64_t import_segment_tokens; /* 0 = the default; 1 = an import's pieces stay. */
} attndb_db_options;

/* SessionOptions. NULL = defaults. */
typedef struct attndb_session_options {
  size_t struct_size;
  const char* context; /* NULL = the longest prefix over all contexts. */
  int32_t no_reuse;    /* 1 = start from nothing. */
  const char* plan;    /* NULL = the db's. */
  int64_t first_position;
  int32_t not_truncated; /* 1 = reuse nothing that was computed after tokens had left. */
} attndb_session_options;

/* StoreOptions. NULL = defaults. */
typedef struct attndb_store_options {
  size_t struct_size;
  const char* name; /* NULL = unnamed. */
  int32_t replace;
  int32_t drop_base;
  int32_t has_ttl;
  int64_t ttl_seconds; /* Only if has_ttl. */
  int32_t pin;
  const char* text_layout; /* TextLayout as text: "document user:3-90". NULL = unknown. */
  const char* title;       /* One line of UTF-8. NULL or "" = none. */
  const void* note;        /* note_bytes bytes of the caller's; NULL and 0 = none. */
  size_t note_bytes;
} attndb_store_options;

/* FindHead of find.h. */
typedef struct attndb_find_head {
  uint32_t layer;
  uint32_t q_head;
} attndb_find_head;

/* FindOptions of find.h. NULL = defaults. */
typedef struct attndb_find_options {
  size_t struct_size;
  uint32_t limit;              /* 0 = 10 passages. */
  const char* const* contexts; /* Names or "#id", num_contexts of them; NULL and 0 = all. */
  size_t num_contexts;
  uint32_t passage_tokens; /* 0 = 64. */
  int32_t head_scores;
} attndb_find_options;

/* RoomOptions. NULL = defaults. */
typedef struct attndb_room_options {
  size_t struct_size;
  int64_t first_position;
  uint64_t checkpoint_tokens; /* 0 = the run tokens are stored once, at the end. */
} attndb_room_options;

/* CompactOptions. NULL = defaults. */
typedef struct attndb_compact_options {
  size_t struct_size;
  uint64_t segment_tokens; /* 0 = merge those below 2048, into segments of any length. */
  const char* context;     /* By name or "#id". NULL or "" = all of the tenant's. */
} attndb_compact_options;

/* The version of the library, what its kernels run on, and the name of a code. Static strings. */
ATTNDB_EXPORT const char* attndb_version(void);
ATTNDB_EXPORT const char* attndb_kernel_isa(void);
ATTNDB_EXPORT const char* attndb_code_name(int32_t code);

/* The message and the code of this thread's last failed call; "" and 0 before the first. The text
 * is ours and lasts until this thread's next failed call. */
ATTNDB_EXPORT const char* attndb_last_error(void);
ATTNDB_EXPORT attndb_code attndb_last_error_code(void);

/* Releases a string or array that one of these functions returned. */
ATTNDB_EXPORT void attndb_free(void* memory);

/* ModelSpec::Validate and KvBytesPerToken. */
ATTNDB_EXPORT attndb_code attndb_spec_validate(const attndb_model_spec* spec);
ATTNDB_EXPORT attndb_code attndb_spec_kv_bytes_per_token(const attndb_model_spec* spec,
                                                         uint64_t* bytes);

/* --- DB --------------------------------------------------------------------------------------- */

/* DB::Open. *db is yours: attndb_db_close. The store itself closes when the last handle and the
 * last session are gone. */
ATTNDB_EXPORT attndb_code attndb_db_open(const char* path, const attndb_db_options* options,
                                         attndb_db** db);
ATTNDB_EXPORT void attndb_db_close(attndb_db* db);
/* Another handle of the same store for tenant `name`: yours, as above. */
ATTNDB_EXPORT attndb_code attndb_db_for_tenant(const attndb_db* db, const char* name,
                                               attndb_db** tenant_db);
/* The handle's text; lasts as long as the handle. NULL for NULL. */
ATTNDB_EXPORT const char* attndb_db_tenant(const attndb_db* db);

/* DB::CreateSession. The engine has to run tokens[*num_reused .. num_tokens). `num_reused` may be
 * NULL. *session is yours: attndb_session_free. */
ATTNDB_EXPORT attndb_code attndb_db_create_session(const attndb_db* db,
                                                   const attndb_model_spec* spec,
                                                   const int32_t* tokens, size_t num_tokens,
                                                   const attndb_session_options* options,
                                                   attndb_session** session, uint64_t* num_reused);
/* DB::CreateSessions, one for each prompt: prompts[i] has num_tokens[i] tokens. `sessions` and
 * `num_reused` (may be NULL) are arrays of num_prompts; on failure no session is made. */
ATTNDB_EXPORT attndb_code attndb_db_create_sessions(
    const attndb_db* db, const attndb_model_spec* spec, const int32_t* const* prompts,
    const size_t* num_tokens, size_t num_prompts, const attndb_session_options* options,
    attndb_session** sessions, uint64_t* num_reused);

/* DB::CreateSessionOver: a session over num_contexts whole contexts, by names or "#id". The
 * list "contexts" of attndb_session_explain says which tokens belong to which context. *session is
 * yours, as above. */
ATTNDB_EXPORT attndb_code attndb_db_create_session_over(
    const attndb_db* db, const attndb_model_spec* spec, const char* const* contexts,
    size_t num_contexts, const attndb_session_options* options, attndb_session** session);

/* DB::Import: keys[l] and values[l] of each of spec->num_layers layers; `queries` is such an array
 * too, or NULL. `context_id` may be NULL here and in attndb_db_store. */
ATTNDB_EXPORT attndb_code attndb_db_import(const attndb_db* db, const attndb_model_spec* spec,
                                           const int32_t* tokens, size_t num_tokens,
                                           const attndb_tensor* keys, const attndb_tensor* values,
                                           const attndb_tensor* queries,
                                           const attndb_store_options* options,
                                           int64_t* context_id);
/* DB::Store: `tokens` are the ids of all tokens that the session holds. */
ATTNDB_EXPORT attndb_code attndb_db_store(const attndb_db* db, attndb_session* session,
                                          const int32_t* tokens, size_t num_tokens,
                                          const attndb_store_options* options, int64_t* context_id);

/* DB::StoreAsync; *pending is yours: attndb_pending_store_free, at any time, while the Store goes
 * on. attndb_pending_store_done never waits; attndb_pending_store_wait gives the id, or the Store's
 * error. Both are thread-safe. */
ATTNDB_EXPORT attndb_code attndb_db_store_async(const attndb_db* db, attndb_session* session,
                                                const int32_t* tokens, size_t num_tokens,
                                                const attndb_store_options* options,
                                                attndb_pending_store** pending);
ATTNDB_EXPORT attndb_code attndb_pending_store_done(const attndb_pending_store* pending,
                                                    int32_t* done);
ATTNDB_EXPORT attndb_code attndb_pending_store_wait(const attndb_pending_store* pending,
                                                    int64_t* context_id);
ATTNDB_EXPORT void attndb_pending_store_free(attndb_pending_store* pending);

/* JSON texts; *json is yours: attndb_free. A context is given by name or as "#id". */
ATTNDB_EXPORT attndb_code attndb_db_explain_prefix(const attndb_db* db,
                                                   const attndb_model_spec* spec,
                                                   const int32_t* tokens, size_t num_tokens,
                                                   const attndb_session_options* options,
                                                   char** json);
/* DB::CheckRoom: *json (may be NULL) is the RoomReport. */
ATTNDB_EXPORT attndb_code attndb_db_check_room(const attndb_db* db, const attndb_model_spec* spec,
                                               const int32_t* tokens, size_t num_tokens,
                                               const attndb_room_options* options, char** json);
/* DB::Find: q[i] is q of heads[i], [num_tokens, 1, head_dim], row 0 at first_position; both arrays
 * have num_heads entries. *json is the FindResult, with a passage's tokens as "begin" and "end". */
ATTNDB_EXPORT attndb_code attndb_db_find(const attndb_db* db, const attndb_model_spec* spec,
                                         const attndb_find_head* heads, const attndb_tensor* q,
                                         size_t num_heads, int64_t first_position,
                                         const attndb_find_options* options, char** json);
ATTNDB_EXPORT attndb_code attndb_db_list(const attndb_db* db, char** json);
ATTNDB_EXPORT attndb_code attndb_db_describe(const attndb_db* db, const char* context, char** json);
ATTNDB_EXPORT attndb_code attndb_db_stats(const attndb_db* db, char** json);
/* DB::CheckPlace. */
ATTNDB_EXPORT attndb_code attndb_db_check_place(const attndb_db* db);
/* DB::Machine; `measure`: 1 = measures now if nothing was measured yet. */
ATTNDB_EXPORT attndb_code attndb_db_machine(const attndb_db* db, int32_t measure, char** json);
/* The token ids of a context; *tokens is yours: attndb_free. */
ATTNDB_EXPORT attndb_code attndb_db_tokens(const attndb_db* db, const char* context,
                                           int32_t** tokens, size_t* num_tokens);
/* DB::Note: the bytes that the context was stored with, 0 if it has none. *note is yours:
 * attndb_free; a zero byte follows the last one. */
ATTNDB_EXPORT attndb_code attndb_db_note(const attndb_db* db, const char* context, char** note,
                                         size_t* note_bytes);

ATTNDB_EXPORT attndb_code attndb_db_pin(const attndb_db* db, const char* context, int32_t pinned);
/* ttl_seconds < 0 = for ever. */
ATTNDB_EXPORT attndb_code attndb_db_set_ttl(const attndb_db* db, const char* context,
                                            int64_t ttl_seconds);
/* DB::Rename. Names are UTF-8. */
ATTNDB_EXPORT attndb_code attndb_db_rename(const attndb_db* db, const char* context,
                                           const char* name);
ATTNDB_EXPORT attndb_code attndb_db_drop(const attndb_db* db, const char* context);
/* 0 = no limit. */
ATTNDB_EXPORT attndb_code attndb_db_set_quota(const attndb_db* db, uint64_t bytes);
ATTNDB_EXPORT attndb_code attndb_db_declare_equal(const attndb_db* db, const void* fingerprint_a,
                                                  size_t fingerprint_a_bytes,
                                                  const void* fingerprint_b,
                                                  size_t fingerprint_b_bytes);
ATTNDB_EXPORT attndb_code attndb_db_revoke_equal(const attndb_db* db, const void* fingerprint_a,
                                                 size_t fingerprint_a_bytes,
                                                 const void* fingerprint_b,
                                                 size_t fingerprint_b_bytes);

/* Called as work proceeds, on the calling thread; a return of 0 cancels: ATTNDB_CANCELLED. */
typedef int32_t (*attndb_progress)(uint64_t bytes_done, uint64_t bytes_total, void* user_data);

/* DB::Verify of one context, or of all with context = NULL. Damage is no error: it is counted in
 * *num_damages (may be NULL) and listed in *json (may be NULL; else attndb_free). */
ATTNDB_EXPORT attndb_code attndb_db_verify(const attndb_db* db, const char* context,
                                           attndb_progress progress, void* user_data,
                                           uint64_t* num_damages, char** json);
/* DB::Compact with default options. */
ATTNDB_EXPORT attndb_code attndb_db_compact(const attndb_db* db);
/* DB::Compact with options; `progress` may be NULL. Calls of `progress` that wait for merges (a
 * store, an import, a drop, another compact, a wait) fail with ATTNDB_FAILED_PRECONDITION. */
ATTNDB_EXPORT attndb_code attndb_db_compact_with(const attndb_db* db,
                                                 const attndb_compact_options* options,
                                                 attndb_progress progress, void* user_data);
/* DB::Build: {"kind", "num_built", "num_present", "num_too_short", "num_missing", "file_bytes",
 * "seconds"}, as in BuildReport, in *json (may be NULL; else attndb_free). `progress` may be
 * NULL. */
ATTNDB_EXPORT attndb_code attndb_db_build(const attndb_db* db, const char* context,
                                          const char* index, attndb_progress progress,
                                          void* user_data, char** json);
/* DB::WaitForBackground; `progress` may be NULL. */
ATTNDB_EXPORT attndb_code attndb_db_wait_for_background(const attndb_db* db,
                                                        attndb_progress progress, void* user_data);

/* --- Session ---------------------------------------------------------------------------------- */

ATTNDB_EXPORT void attndb_session_free(attndb_session* session);

/* Session::Append, Attend, AttendPart: shapes as in session.h. `lse` may be NULL. */
ATTNDB_EXPORT attndb_code attndb_session_append(attndb_session* session, uint32_t layer,
                                                const attndb_tensor* k, const attndb_tensor* v);
ATTNDB_EXPORT attndb_code attndb_session_attend(attndb_session* session, uint32_t layer,
                                                const attndb_tensor* q, const attndb_tensor* out,
                                                float* lse);
ATTNDB_EXPORT attndb_code attndb_session_attend_part(attndb_session* session, uint32_t layer,
                                                     const attndb_tensor* q,
                                                     const attndb_tensor* out, float* lse,
                                                     uint32_t part, uint32_t num_parts);
/* Session::Search: the tokens of the middle that the layer's plan selects for the one row of q.
 * num_found[num_q_heads] counts them by q head; *tokens lists them by q head, and *scores (may be
 * NULL) their unscaled scores. Both arrays are yours: attndb_free. */
ATTNDB_EXPORT attndb_code attndb_session_search(attndb_session* session, uint32_t layer,
                                                const attndb_tensor* q, uint64_t* num_found,
                                                uint32_t** tokens, float** scores);
/* Session::Update and Attention: AlayaDB's names. */
ATTNDB_EXPORT attndb_code attndb_session_update(attndb_session* session, const attndb_tensor* q,
                                                const attndb_tensor* k, const attndb_tensor* v,
                                                uint32_t layer);
ATTNDB_EXPORT attndb_code attndb_session_attention(attndb_session* session, const attndb_tensor* q,
                                                   uint32_t layer, const attndb_tensor* out);
/* AttendBatch: q and out begin with the num_rows[0] rows of sessions[0], followed by the rows of
 * sessions[1], and so on. `codes` gets one code per session; if it is NULL, the call returns the
 * first error, and the other sessions are complete. */
ATTNDB_EXPORT attndb_code attndb_attend_batch(attndb_session* const* sessions,
                                              const int64_t* num_rows, size_t num_sessions,
                                              uint32_t layer, const attndb_tensor* q,
                                              const attndb_tensor* out, float* lse,
                                              attndb_code* codes);

/* Numbers of a session; 0 for NULL. */
ATTNDB_EXPORT uint64_t attndb_session_num_tokens(const attndb_session* session);
ATTNDB_EXPORT uint64_t attndb_session_num_reused(const attndb_session* session);
ATTNDB_EXPORT int64_t attndb_session_context_id(const attndb_session* session);
/* Session::next_position. */
ATTNDB_EXPORT int64_t attndb_session_next_position(const attndb_session* session);
ATTNDB_EXPORT uint64_t attndb_session_memory_bytes(const attndb_session* session);
/* The ModelSpec as JSON text; *json is yours: attndb_free. */
ATTNDB_EXPORT attndb_code attndb_session_spec(const attndb_session* session, char** json);

/* Session::ReadKv of tokens [begin, end). `k` or `v` may be NULL: then it is not read. */
ATTNDB_EXPORT attndb_code attndb_session_read_kv(const attndb_session* session, uint32_t layer,
                                                 uint64_t begin, uint64_t end,
                                                 const attndb_tensor* k, const attndb_tensor* v);
ATTNDB_EXPORT attndb_code attndb_session_crop(attndb_session* session, uint64_t num_tokens);
/* Tokens [begin, end). */
typedef struct attndb_token_range {
  uint64_t begin;
  uint64_t end;
} attndb_token_range;
/* Session::SetFilter; `ranges` may be NULL if num_ranges is 0: then all tokens are attended to. */
ATTNDB_EXPORT attndb_code attndb_session_set_filter(attndb_session* session,
                                                    const attndb_token_range* ranges,
                                                    size_t num_ranges);
/* DropOptions. NULL = defaults. */
typedef struct attndb_drop_options {
  size_t struct_size;
  uint64_t keep_first;
  const attndb_token_range* keep; /* [num_keep]; NULL if there are none. */
  size_t num_keep;
  int32_t no_sink; /* 1 = where keep_first is 0, the first token does not stay either. */
} attndb_drop_options;
/* Session::DropOldest. */
ATTNDB_EXPORT attndb_code attndb_session_drop_oldest(attndb_session* session, uint64_t n,
                                                     const attndb_drop_options* options);
/* Session::num_dropped; 0 for NULL. */
ATTNDB_EXPORT uint64_t attndb_session_num_dropped(const attndb_session* session);
/* Session::cuts as JSON text, [{"at": .., "dropped": [[begin, end], ..]}, ..]; *json is yours. */
ATTNDB_EXPORT attndb_code attndb_session_cuts(const attndb_session* session, char** json);
/* Session::HeaviestTokens of tokens [begin, end). *ranges has *num_ranges entries and is yours:
 * attndb_free. */
ATTNDB_EXPORT attndb_code attndb_session_heaviest_tokens(attndb_session* session, uint64_t begin,
                                                         uint64_t end, uint64_t num_tokens,
                                                         attndb_token_range** ranges,
                                                         size_t* num_ranges);
/* Session::Rebase. */
ATTNDB_EXPORT attndb_code attndb_session_rebase(attndb_session* session, int64_t position);
ATTNDB_EXPORT attndb_code attndb_session_await_derived(attndb_session* session, uint32_t layer);
/* Session::awaits_derived: 1 or 0; 0 for NULL. */
ATTNDB_EXPORT int attndb_session_awaits_derived(const attndb_session* session, uint32_t layer);
/* *fork is yours: attndb_session_free. */
ATTNDB_EXPORT attndb_code attndb_session_fork(const attndb_session* session, attndb_session** fork);
ATTNDB_EXPORT attndb_code attndb_session_reset(attndb_session* session);
ATTNDB_EXPORT attndb_code attndb_session_set_plan(attndb_session* session, const char* plan);
/* Session::Explain as JSON text, of all layers or of one; *json is yours: attndb_free. */
ATTNDB_EXPORT attndb_code attndb_session_explain(const attndb_session* session, char** json);
ATTNDB_EXPORT attndb_code attndb_session_explain_layer(const attndb_session* session,
                                                       uint32_t layer, char** json);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* ATTNDB_C_API_H_ */
