// Internal: the functions of an instruction set, by families, and the table of them in use. Callers
// include the kernels' headers instead.
//
// A family is one source, *_target.cc, which CMakeLists.txt compiles once for each instruction set,
// with its flags, and which defines one constant of the family's type in the namespace of that
// target. It includes *-inl.h sources. These keep everything in an unnamed namespace and use no
// function of std, so that no code built for AVX-512 can be merged by the linker into code that
// runs on every CPU.
#ifndef ATTNDB_KERNELS_KERNEL_TABLE_H_
#define ATTNDB_KERNELS_KERNEL_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/attention_state.h"
#include "kernels/combine.h"
#include "kernels/convert.h"
#include "kernels/draw.h"
#include "kernels/layout.h"
#include "kernels/planes.h"
#include "kernels/product_codes.h"
#include "kernels/value_planes.h"

namespace attndb::kernels {

// attend.h, score.h: for a run of rows, and for the rows that `indices` list.
struct AttendKernels {
  void (*attend)(const RowsView& k, const RowsView& v, const uint32_t* indices, size_t first_key,
                 size_t num_tokens, const float* q, size_t q_stride, size_t num_q_rows,
                 const LogitSpec& logit, const StateRows& states);
  void (*attend_scored)(const float* scores, size_t scores_stride, size_t num_q_rows,
                        const RowsView& v, const uint32_t* indices, size_t num_tokens,
                        const LogitSpec& logit, const StateRows& states);
  void (*score)(const RowsView& k, const uint32_t* indices, size_t num_tokens, const float* q,
                size_t q_stride, size_t num_q_rows, float* scores, size_t scores_stride);
};

// attend_block.h
struct AttendBlockKernels {
  void (*attend_block)(const RowsView& k, const RowsView& v, size_t first_key, size_t num_tokens,
                       const float* q, size_t q_stride, size_t num_q_rows, const uint32_t* lo,
                       const uint32_t* hi, const LogitSpec& logit, const StateRows& states,
                       void* scratch);
};

// select.h, score_blocks.h
struct SelectKernels {
  float (*max_score)(const float* scores, size_t num_scores);
  size_t (*select_range)(const float* scores, size_t num_scores, float threshold,
                         uint32_t* indices);
  size_t (*take_not_below)(const float* scores, size_t num_scores, float threshold, float* taken);
  void (*mark_not_below)(const float* scores, size_t num_scores, float threshold, uint64_t* bits);
  float (*top_threshold)(const float* scores, size_t num_scores, size_t k, void* scratch);
  size_t (*select_top_k)(const float* scores, size_t num_scores, size_t k, uint32_t* indices,
                         void* scratch);
  void (*summarize_scores)(const float* scores, size_t num_scores, const LogitSpec& logit,
                           float* maxima, float* sums);
  size_t (*select_from_blocks)(const float* scores, size_t num_scores, const float* maxima,
                               float threshold, uint32_t* indices);
};

// weights.h
struct WeightKernels {
  void (*exp_weights)(const float* scores, size_t num_scores, const LogitSpec& logit, float max,
                      float* weights);
  void (*to_logits)(const float* scores, size_t num_scores, const LogitSpec& logit, float* logits);
  void (*sum_weights)(const float* scores, size_t num_scores, const LogitSpec& logit, float max,
                      float* sums);
  float (*sum_not_below)(const float* weights, size_t num_weights, float threshold);
};

// draw.h
struct DrawKernels {
  float (*sum_at_most)(const float* weights, size_t num_weights, float limit);
  void (*find_margins)(const DrawRule& rule, const float* scores, size_t stride, size_t num_rows,
                       size_t num_scores, float* margins);
  void (*keep_tokens)(const DrawRule& rule, const float* scores, size_t stride, size_t num_rows,
                      size_t num_scores, const float* noise, uint32_t first_token,
                      KeptTokens* kept);
  void (*part_drawn)(const DrawRule& rule, const KeptTokens& kept, size_t begin, size_t end,
                     size_t num_rows, float heavy_margin, DrawnLists* lists);
  size_t (*draw_by_words)(const WordDraw& draw, size_t num_tokens, uint32_t first_token,
                          uint32_t* tokens, uint16_t* margins);
};

// planes.h
struct PlaneKernels {
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
};

// product_codes.h; find_nearest of one subspace.
struct ProductCodeKernels {
  void (*build_lookup_tables)(const CodebookView& codebook, const float* q, size_t q_stride,
                              size_t num_q_rows, std::byte* entries, TableRow* rows);
  void (*scan_product_codes)(const ProductCodesView& view, size_t first_key, size_t num_keys,
                             const LookupTables& tables, float* scores, size_t scores_stride);
  void (*weigh_product_codes)(const ProductCodesView& view, size_t first_key, size_t num_keys,
                              const LookupTables& tables, const WeightRow* maps,
                              const CodeWeights& out);
  void (*find_nearest)(const float* centroids, const float* half_squares, size_t width,
                       size_t num_entries, const float* rows, size_t stride, size_t num_keys,
                       uint8_t* nearest, float* gains);
  void (*lower_distances)(const float* keys, size_t width, size_t num_blocks, const float* centroid,
                          float* distances);
};

// value_planes.h
struct ValueKernels {
  void (*encode_values)(const ValueRows& block, uint8_t* codes, float* scale);
  void (*mean_of_values)(const ValueRows& block, uint16_t* mean, float* norm);
  float (*longest_row)(const RowsView& rows, size_t num_rows);
  void (*add_value_mean)(const ValueMeansView& values, size_t block, float weight, float* out);
  void (*attend_coded)(const float* scores, size_t scores_stride, size_t num_q_rows,
                       const ValuePlanesView& values, const uint32_t* indices, size_t num_indices,
                       const LogitSpec& logit, const StateRows& states);
};

// convert.h, hadamard.h, centre.h, combine.h, byte_dot.h, bandwidth.h
struct RowKernels {
  ConvertReport (*convert_rows)(DType from_dtype, const void* from, size_t from_stride,
                                DType to_dtype, void* to, size_t to_stride, size_t num_rows,
                                size_t num_cols, size_t padded_cols);
  void (*hadamard_rows)(float* rows, size_t stride, size_t num_rows, size_t num_channels,
                        const float* signs);
  void (*sum_rows)(const float* rows, size_t stride, size_t num_rows, size_t num_channels,
                   float* sums);
  void (*centre_rows)(float* rows, size_t stride, size_t num_rows, size_t num_channels,
                      const float* mean, const float* scale, float* norm_sq);
  void (*add_combinations)(const FunctionTable& table, const float* factors, size_t factors_stride,
                           size_t num_rows, size_t num_columns, float* out, size_t out_stride);
  void (*dot_bytes)(const int8_t* row, const int8_t* rows, size_t stride, size_t num_channels,
                    const uint32_t* indices, size_t num_indices, int32_t* dots);
  uint64_t (*xor_words)(const void* data, size_t num_bytes);
};

// The families of one instruction set. None of them is null.
struct KernelTable {
  const AttendKernels* attend_rows;
  const AttendKernels* attend_listed;
  const AttendBlockKernels* attend_block;
  const SelectKernels* select;
  const WeightKernels* weights;
  const DrawKernels* draw;
  const PlaneKernels* planes;
  const ProductCodeKernels* product_codes;
  const ValueKernels* values;
  const RowKernels* rows;
  // The instruction sets that planes_target.cc was compiled for: isa.h.
  const char* instruction_sets;
};

// The table in use; the first call chooses it.
const KernelTable& Kernels();

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_KERNEL_TABLE_H_
