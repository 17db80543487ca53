// What fuzzers do to the byte forms of what is derived from keys (docs/formats): a form that a
// build made is changed as the input says, and what a reader lets through is searched, scanned or
// read.
//
// Input:   any bytes. Edits of the form first, then how it is searched; missing bytes are 0.
// Found:   a sanitizer's report, or a search that gives keys that may not be found, keys twice, or
//          other scores than q.k, or a token that is ranked twice: the process ends.
// Threads: any.
#ifndef ATTNDB_FUZZ_INDEX_FORMS_H_
#define ATTNDB_FUZZ_INDEX_FORMS_H_

#include <cstdint>
#include <span>

namespace attndb::fuzz {

// Whether a reader took the changed form.
bool FuzzClusters(std::span<const uint8_t> input);
bool FuzzGraph(std::span<const uint8_t> input);
bool FuzzRoarGraph(std::span<const uint8_t> input);   // Version 2 of the graph's form.
bool FuzzHeadGraphs(std::span<const uint8_t> input);  // A graph of each q head of a group.
bool FuzzInfllm(std::span<const uint8_t> input);      // Blocks with representatives.
bool FuzzQuest(std::span<const uint8_t> input);       // Blocks with bounds.
bool FuzzKeyPlanes(std::span<const uint8_t> input);
bool FuzzPrefillRanking(std::span<const uint8_t> input);
bool FuzzProductCodes(std::span<const uint8_t> input);
bool FuzzWave(std::span<const uint8_t> input);

}  // namespace attndb::fuzz

#endif  // ATTNDB_FUZZ_INDEX_FORMS_H_
