// Internal: one table of functions per ISA, and the one in use. Callers include the kernels'
//           headers.
//
// Each *_target.cc is compiled with its own machine flags and includes the *-inl.h sources. These
// keep everything in an unnamed namespace and use no function of std, so that no code built for
// AVX-512 can be merged by the linker into code that runs on every CPU.
#ifndef ATTNDB_KERNELS_KERNEL_TABLE_H_
#define ATTNDB_KERNELS_KERNEL_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/attention_state.h"
#include "kernels/combine.h"
#include "kernels/convert.h"
#include "kernels/draw.h"
#include "kernels/isa.h"
#include "kernels/layout.h"
#include "kernels/planes.h"
#include "kernels/sign_plane.h"
#include "kernels/value_planes.h"

namespace attndb::kernels {

struct KernelTable {
  // attend.h, score.h; indices may be null: then token j is row j.
  void (*attend)(const RowsView& k, const RowsView& v, const uint32_t* indices, size_t num_tokens,
                 const float* q, size_t q_stride, size_t num_q_rows, const LogitSpec& logit,
                 const StateRows& states);
  void (*attend_scored)(const float* scores, size_t scores_stride, size_t num_q_rows,
                        const RowsView& v, const uint32_t* indices, size_t num_tokens,
                        const LogitSpec& logit, const StateRows& states);
  void (*score)(const RowsView& k, const uint32_t* indices, size_t num_tokens, const float* q,
                size_t q_stride, size_t num_q_rows, float* scores, size_t scores_stride);
  // attend_block.h
  void (*attend_block)(const RowsView& k, const RowsView& v, size_t num_tokens, const float* q,
                       size_t q_stride, size_t num_q_rows, const uint32_t* lo, const uint32_t* hi,
                       const LogitSpec& logit, const StateRows& states, void* scratch);
  // select.h
  float (*max_score)(const float* scores, size_t num_scores);
  size_t (*select_range)(const float* scores, size_t num_scores, float threshold,
                         uint32_t* indices);
  size_t (*take_not_below)(const float* scores, size_t num_scores, float threshold, float* taken);
  void (*mark_not_below)(const float* scores, size_t num_scores, float threshold, uint64_t* bits);
  float (*top_threshold)(const float* scores, size_t num_scores, size_t k, void* scratch);
  size_t (*select_top_k)(const float* scores, size_t num_scores, size_t k, uint32_t* indices,
                         void* scratch);
  // weights.h
  void (*exp_weights)(const float* scores, size_t num_scores, const LogitSpec& logit, float max,
                      float* weights);
  void (*to_logits)(const float* scores, size_t num_scores, const LogitSpec& logit, float* logits);
  void (*sum_weights)(const float* scores, size_t num_scores, const LogitSpec& logit, float max,
                      float* sums);
  float (*sum_not_below)(const float* weights, size_t num_weights, float threshold);
  // draw.h
  float (*sum_at_most)(const float* weights, size_t num_weights, float limit);
  void (*lift_scores)(const DrawRule& rule, const float* scores, size_t stride, size_t num_rows,
                      size_t num_scores, float* lifts);
  void (*keep_tokens)(const DrawRule& rule, const float* scores, size_t stride, size_t num_rows,
                      size_t num_scores, const float* noise, uint32_t first_token,
                      KeptTokens* kept);
  void (*part_drawn)(const DrawRule& rule, const KeptTokens& kept, size_t begin, size_t end,
                     size_t num_rows, float heavy_lift, DrawnLists* lists);
  // score_blocks.h
  void (*summarize_scores)(const float* scores, size_t num_scores, const LogitSpec& logit,
                           float* maxima, float* sums);
  size_t (*select_from_blocks)(const float* scores, size_t num_scores, const float* maxima,
                               float threshold, uint32_t* indices);
  // convert.h
  ConvertReport (*convert_rows)(DType from_dtype, const void* from, size_t from_stride,
                                DType to_dtype, void* to, size_t to_stride, size_t num_rows,
                                size_t num_cols, size_t padded_cols);
  // planes.h
  void (*encode_planes)(const float* rows, size_t stride, size_t num_keys, size_t num_channels,
                        const PlaneBlock& block);
  void (*encode_plane_query)(const float* q, size_t num_channels, int8_t* codes, float* scale,
                             int32_t* code_sum);
  void (*scan_planes)(const PlanesView& planes, int bits, size_t first_key, size_t num_keys,
                      const PlaneQuery* queries, size_t num_q_rows, float* scores,
                      size_t scores_stride);
  void (*scan_plane_blocks)(const PlanesView& planes, int bits, const PlaneBlocks& list,
                            const PlaneQuery* queries, size_t num_q_rows, float* scores,
                            size_t scores_stride);
  size_t (*keep_planes)(const PlanesView& planes, int bits, size_t first_key, size_t num_keys,
                        const PlaneQuery* queries, size_t num_q_rows, const DrawRule& rule,
                        const float* noise, uint32_t first_token, const float* needs,
                        KeptTokens* kept);
  // sign_plane.h
  void (*encode_sign_query)(const float* q, size_t num_channels, uint8_t* tables, float* scale,
                            int32_t* magnitude_sum);
  void (*scan_signs)(const SignView& signs, size_t first_key, size_t num_keys,
                     const SignQuery* queries, size_t num_q_rows, float* scores,
                     size_t scores_stride);
  // hadamard.h
  void (*hadamard_rows)(float* rows, size_t stride, size_t num_rows, size_t num_channels,
                        const float* signs);
  // centre.h
  void (*sum_rows)(const float* rows, size_t stride, size_t num_rows, size_t num_channels,
                   float* sums);
  void (*centre_rows)(float* rows, size_t stride, size_t num_rows, size_t num_channels,
                      const float* mean, const float* scale, float* norm_sq);
  // combine.h
  void (*add_combinations)(const FunctionTable& table, const float* factors, size_t factors_stride,
                           size_t num_rows, size_t num_columns, float* out, size_t out_stride);
  // value_planes.h
  void (*encode_values)(float* rows, size_t stride, size_t num_tokens, size_t num_elements,
                        uint32_t bits, const ValueBlock& block);
  float (*longest_row)(const RowsView& rows, size_t num_rows);
  void (*add_value_block)(const ValuePlanesView& values, size_t block, const float* weights,
                          size_t num_tokens, float* out);
  void (*add_value_mean)(const ValuePlanesView& values, size_t block, float weight, float* out);
  void (*attend_coded)(const float* scores, size_t scores_stride, size_t num_q_rows,
                       const ValuePlanesView& values, const uint32_t* indices, size_t num_indices,
                       const LogitSpec& logit, const StateRows& states);
  // byte_dot.h
  void (*dot_bytes)(const int8_t* row, const int8_t* rows, size_t stride, size_t num_channels,
                    const uint32_t* indices, size_t num_indices, int32_t* dots);
  // bandwidth.h
  uint64_t (*xor_words)(const void* data, size_t num_bytes);
};

// What a target has that takes the rest from another one.
struct PlaneKernels {
  decltype(KernelTable::encode_planes) encode_planes;
  decltype(KernelTable::encode_plane_query) encode_plane_query;
  decltype(KernelTable::scan_planes) scan_planes;
  decltype(KernelTable::scan_plane_blocks) scan_plane_blocks;
  decltype(KernelTable::keep_planes) keep_planes;
  decltype(KernelTable::encode_sign_query) encode_sign_query;
  decltype(KernelTable::scan_signs) scan_signs;
};

// Null where the build does not have the target. Called on every CPU: they return the address of a
// constant and do nothing else, since their files are compiled for the target.
const KernelTable* ScalarTable();
const KernelTable* Avx2Table();
const KernelTable* Avx512Table();
const PlaneKernels* Avx512VnniKernels();

// The table in use; the first call chooses it.
const KernelTable& Kernels();

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_KERNEL_TABLE_H_
