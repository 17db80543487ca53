// Internal to graph: chooses the rows of a source that train a graph.
//
// Threads: pure functions.
#ifndef ATTNDB_INDEX_GRAPH_TRAINING_QUERIES_H_
#define ATTNDB_INDEX_GRAPH_TRAINING_QUERIES_H_

#include <cstddef>
#include <vector>

#include "index/graph/graph_source.h"

namespace attndb::index {

// Element i of `count` elements that are spaced evenly over `total`.
inline size_t Spaced(size_t i, size_t count, size_t total) { return i * total / count; }

// The most queries that may train a graph of num_keys keys; max_queries, keys_per_query:
// GraphOptions.
size_t MostQueries(size_t max_queries, size_t num_keys, size_t keys_per_query);

// Loads a row of queries, or of keys, as float32.
void LoadTrainingQuery(const GraphSource& source, const std::byte* row, float* out);

// Whether a row is finite and not zero.
bool CanTrain(const GraphSource& source, const std::byte* row);

// Evenly spaced rows of the source's queries that can train; keys where there are none.
std::vector<const std::byte*> TrainingQueries(const GraphSource& source,
                                              const RoarOptions& options);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_TRAINING_QUERIES_H_
