// Arrays of NumPy's .npy files, format 1.0 to 3.0: little-endian float16 or float32, C order.
//
// A file is hostile until checked: the header's length, text and shape are limited before anything
// is allocated, and the shape must account for every byte of the file.
//
// Errors:  kNotFound, kIoError; kInvalidArgument naming the file, what is expected and what was
//          found.
// Threads: stateless.
// Source:  NumPy's numpy/lib/format.py ("NEP 1").
#ifndef ATTNDB_BENCH_HEADS_NPY_H_
#define ATTNDB_BENCH_HEADS_NPY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/dtype.h"
#include "attndb/result.h"
#include "attndb/tensor_view.h"

namespace attndb::bench {

struct NpyHeader {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;  // 1 to 8 sizes, each >= 0.
};

struct NpyArray {
  NpyHeader header;
  std::vector<uint64_t> words;  // The data, aligned for any element.

  const void* data() const { return words.data(); }
  // The array as a view of three sizes: [rows, dim] is one head. REQUIRES: 2 or 3 sizes.
  TensorView View() const;
};

// The dictionary text of a header: "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }".
Result<NpyHeader> ParseNpyHeader(std::string_view text);

// Parses a whole file in memory: header and data. `name` is for messages.
Result<NpyArray> ParseNpy(std::string_view bytes, const std::string& name);

// Reads a file, which may hold anything. Accepts arrays of 2 or 3 sizes only, none of them 0.
Result<NpyArray> ReadNpy(const std::string& path);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_HEADS_NPY_H_
