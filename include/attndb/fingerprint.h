// Fingerprints as text. A fingerprint is any bytes that name a model's weights: an engine may give
// letters or a bare digest, and people must read, compare and type both.
//
// Threads: pure functions.
#ifndef ATTNDB_FINGERPRINT_H_
#define ATTNDB_FINGERPRINT_H_

#include <string>
#include <string_view>

#include "attndb/export.h"
#include "attndb/result.h"

namespace attndb {

// The fingerprint itself if it is printable ASCII; else "hex:" and lower-case digits. Two
// fingerprints never give one text.
ATTNDB_EXPORT std::string FingerprintText(std::string_view fingerprint);

// Its inverse. kInvalidArgument: empty, or "hex:" with what are no digits of whole bytes.
ATTNDB_EXPORT Result<std::string> ParseFingerprint(std::string_view text);

}  // namespace attndb

#endif  // ATTNDB_FINGERPRINT_H_
