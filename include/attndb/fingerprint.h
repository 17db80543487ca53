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

// The fingerprint itself if it is printable ASCII; else "hex:" and lower-case digits. Different
// fingerprints have different texts.
ATTNDB_EXPORT std::string FingerprintText(std::string_view fingerprint);

// The fingerprint that has this text.
// Errors: kInvalidArgument (empty, or "hex:" without the digits of whole bytes behind it).
ATTNDB_EXPORT Result<std::string> ParseFingerprint(std::string_view text);

}  // namespace attndb

#endif  // ATTNDB_FINGERPRINT_H_
