/* Goal:   c_api.h is C99, the shared library exports it, and a C program can do a whole round.
 * Method: compiled as C, linked to libattndb.so alone: open, append, attend, store, reopen, attend
 *         again on the stored context, compare bit by bit; then what goes wrong.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attndb/c_api.h"

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "%s:%d: failed: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
              attndb_last_error());                                                           \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

enum { kLayers = 2, kQHeads = 4, kKvHeads = 2, kDim = 16, kTokens = 40 };

/* A pseudo-random value in [-1, 1) for element `i` of array `array`. */
static float Value(uint32_t array, uint32_t i) {
  uint32_t x = array * 2654435761u + i * 2246822519u + 374761393u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return (float)(x >> 8) / 8388608.0f - 1.0f;
}

static attndb_tensor Tensor(float* data, int64_t rows, int64_t heads) {
  attndb_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.struct_size = sizeof tensor;
  tensor.data = data;
  tensor.dtype = ATTNDB_FLOAT32;
  tensor.shape[0] = rows;
  tensor.shape[1] = heads;
  tensor.shape[2] = kDim;
  return tensor;
}

static void Fill(float* data, size_t count, uint32_t array) {
  for (size_t i = 0; i < count; ++i) data[i] = Value(array, (uint32_t)i);
}

static attndb_model_spec Spec(attndb_layer_spec* layers) {
  attndb_model_spec spec;
  memset(layers, 0, kLayers * sizeof *layers);
  for (int i = 0; i < kLayers; ++i) {
    layers[i].struct_size = sizeof *layers;
    layers[i].num_q_heads = kQHeads;
    layers[i].num_kv_heads = kKvHeads;
    layers[i].head_dim = kDim;
    layers[i].v_head_dim = kDim;
  }
  memset(&spec, 0, sizeof spec);
  spec.struct_size = sizeof spec;
  spec.layers = layers;
  spec.num_layers = kLayers;
  spec.kv_dtype = ATTNDB_FLOAT32;
  spec.fingerprint = "c test";
  spec.fingerprint_bytes = 6;
  return spec;
}

/* One step of tokens [begin, end); out is the last layer's, [end - begin, kQHeads, kDim]. */
static void Step(attndb_session* session, uint32_t begin, uint32_t end, float* out) {
  static float k[kTokens * kKvHeads * kDim], v[kTokens * kKvHeads * kDim];
  static float q[kTokens * kQHeads * kDim];
  const int64_t rows = (int64_t)(end - begin);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    for (uint32_t t = begin; t < end; ++t) {
      const size_t at = t - begin;
      Fill(k + at * kKvHeads * kDim, kKvHeads * kDim, 1000 * layer + t);
      Fill(v + at * kKvHeads * kDim, kKvHeads * kDim, 100000 + 1000 * layer + t);
      Fill(q + at * kQHeads * kDim, kQHeads * kDim, 200000 + 1000 * layer + t);
    }
    const attndb_tensor tk = Tensor(k, rows, kKvHeads), tv = Tensor(v, rows, kKvHeads);
    const attndb_tensor tq = Tensor(q, rows, kQHeads), to = Tensor(out, rows, kQHeads);
    CHECK(attndb_session_append(session, layer, &tk, &tv) == ATTNDB_OK);
    CHECK(attndb_session_attend(session, layer, &tq, &to, NULL) == ATTNDB_OK);
  }
}

static void TestRoundTrip(const char* path) {
  attndb_layer_spec layers[kLayers];
  const attndb_model_spec spec = Spec(layers);
  int32_t tokens[kTokens];
  for (int i = 0; i < kTokens; ++i) tokens[i] = 3 * i;
  attndb_db* db = NULL;
  CHECK(attndb_db_open(path, NULL, &db) == ATTNDB_OK);
  attndb_session* session = NULL;
  uint64_t num_reused = 99;
  CHECK(attndb_db_create_session(db, &spec, tokens, kTokens, NULL, &session, &num_reused) == 0);
  CHECK(num_reused == 0);
  static float out[kTokens * kQHeads * kDim], before[kQHeads * kDim], after[kQHeads * kDim];
  Step(session, 0, kTokens - 1, out);
  const attndb_store_options options = {.struct_size = sizeof options, .name = "round"};
  int64_t id = 0;
  CHECK(attndb_db_store(db, session, tokens, kTokens - 1, &options, &id) == ATTNDB_OK);
  CHECK(id > 0 && attndb_session_context_id(session) == id);
  Step(session, kTokens - 1, kTokens, before);
  CHECK(attndb_session_num_tokens(session) == kTokens);
  attndb_session_free(session);
  attndb_db_close(db);

  CHECK(attndb_db_open(path, NULL, &db) == ATTNDB_OK);
  CHECK(attndb_db_create_session(db, &spec, tokens, kTokens, NULL, &session, &num_reused) == 0);
  CHECK(num_reused == kTokens - 1);
  Step(session, kTokens - 1, kTokens, after);
  CHECK(memcmp(before, after, sizeof before) == 0);
  char* json = NULL;
  const attndb_compact_options compact = {.struct_size = sizeof compact, .segment_tokens = 4096};
  CHECK(attndb_db_compact_with(db, &compact, NULL, NULL) == ATTNDB_OK);
  CHECK(attndb_db_list(db, &json) == ATTNDB_OK);
  CHECK(strstr(json, "\"name\":\"round\"") != NULL);
  attndb_free(json);
  attndb_session_free(session);
  attndb_db_close(db);
}

/* A session over "round" and a second context; and what of them a question's q is about. */
static void TestSeveralContexts(const char* path) {
  attndb_layer_spec layers[kLayers];
  const attndb_model_spec spec = Spec(layers);
  int32_t tokens[kTokens];
  for (int i = 0; i < kTokens; ++i) tokens[i] = 5 * i + 1;
  attndb_db* db = NULL;
  attndb_session* session = NULL;
  CHECK(attndb_db_open(path, NULL, &db) == ATTNDB_OK);
  CHECK(attndb_db_create_session(db, &spec, tokens, kTokens, NULL, &session, NULL) == 0);
  static float out[kTokens * kQHeads * kDim];
  Step(session, 0, 20, out);
  const attndb_store_options options = {.struct_size = sizeof options, .name = "second"};
  CHECK(attndb_db_store(db, session, tokens, 20, &options, NULL) == ATTNDB_OK);
  attndb_session_free(session);

  const char* const names[] = {"second", "round"};
  CHECK(attndb_db_create_session_over(db, &spec, names, 2, NULL, &session) == ATTNDB_OK);
  CHECK(attndb_session_num_tokens(session) == 20 + kTokens - 1);
  CHECK(attndb_session_next_position(session) == kTokens - 1);
  CHECK(attndb_session_context_id(session) == 0);
  Step(session, kTokens - 1, kTokens, out);
  CHECK(attndb_session_next_position(session) == kTokens);
  char* json = NULL;
  CHECK(attndb_session_explain(session, &json) == ATTNDB_OK);
  CHECK(strstr(json, "\"name\":\"second\",\"begin\":0,\"end\":20,") != NULL);
  attndb_free(json);
  CHECK(attndb_db_create_session_over(db, &spec, names, 0, NULL, &session) ==
        ATTNDB_INVALID_ARGUMENT);
  attndb_session_free(session);

  /* q as the key of token 30 of "round", larger: no other passage has more of it. */
  static float q[kKvHeads * kDim];
  Fill(q, kKvHeads * kDim, 30);
  for (int i = 0; i < kDim; ++i) q[i] *= 4;
  const attndb_find_head head = {.layer = 0, .q_head = 0};
  const attndb_tensor tq = Tensor(q, 1, 1);
  const attndb_find_options find = {.struct_size = sizeof find,
                                    .limit = 1,
                                    .contexts = names,
                                    .num_contexts = 2,
                                    .passage_tokens = 8};
  CHECK(attndb_db_find(db, &spec, &head, &tq, 1, 0, &find, &json) == ATTNDB_OK);
  CHECK(strstr(json, "{\"passages\":[{\"context\":\"round\"") != NULL);
  CHECK(strstr(json, "\"num_contexts\":2,\"num_tokens\":59,") != NULL);
  attndb_free(json);
  CHECK(attndb_db_find(db, &spec, NULL, NULL, 0, 0, NULL, &json) == ATTNDB_INVALID_ARGUMENT);
  attndb_db_close(db);
}

static void TestWhatGoesWrong(const char* path) {
  attndb_db* db = NULL;
  CHECK(attndb_db_open(NULL, NULL, &db) == ATTNDB_INVALID_ARGUMENT);
  CHECK(db == NULL);
  CHECK(strcmp(attndb_last_error(), "path is NULL") == 0);
  CHECK(attndb_last_error_code() == ATTNDB_INVALID_ARGUMENT);
  const attndb_db_options options = {.struct_size = 4};
  CHECK(attndb_db_open(path, &options, &db) == ATTNDB_INVALID_ARGUMENT);
  CHECK(strstr(attndb_last_error(), "attndb_db_options.struct_size is 4") != NULL);
  CHECK(attndb_db_open(path, NULL, &db) == ATTNDB_OK);
  CHECK(attndb_db_drop(db, "nobody") == ATTNDB_NOT_FOUND);
  CHECK(strcmp(attndb_code_name(ATTNDB_NOT_FOUND), "not found") == 0);
  CHECK(strcmp(attndb_code_name(99), "unknown") == 0);
  attndb_db_close(db);
  attndb_db_close(NULL);
  attndb_session_free(NULL);
  attndb_free(NULL);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  CHECK(strlen(attndb_version()) > 0 && strlen(attndb_kernel_isa()) > 0);
  TestRoundTrip(argv[1]);
  TestSeveralContexts(argv[1]);
  TestWhatGoesWrong(argv[1]);
  puts("ok");
  return 0;
}
