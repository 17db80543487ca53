// Replies of an assistant whose meaning is known, and how far llama.cpp's templates show them.
//
// Cases:  the kinds of replies that llama.cpp's own tests of its parsers have: calls with and
//         without words and reasoning, several calls, arguments of each type, code, lines and
//         markup in texts, words that look like the beginning of a call.
#ifndef ATTNDB_TESTS_SERVER_KNOWN_REPLIES_H_
#define ATTNDB_TESTS_SERVER_KNOWN_REPLIES_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "server/json.h"

namespace attndb::server {

// The tools that these replies call, as a request offers them.
extern const char kKnownTools[];

// A message of the assistant.
struct Said {
  std::string reasoning;
  std::string content;
  std::vector<std::pair<std::string, Json>> calls;  // Names and arguments.
};

// A reply and its name.
struct KnownReply {
  std::string name;
  Said said;
};

std::string ToText(const Said& said);

// The message of such a reply in a request's history.
Json MessageOf(const Said& said);

// Returns six replies that each template is tested with, then the others. A short run has a fourth
// of the others; templates with other numbers have other fourths.
std::vector<KnownReply> KnownReplies(size_t template_number);

// Whether llama.cpp reads a reply otherwise than the history of its template says.
bool IsUnreadable(const std::string& file, const KnownReply& reply);

// Whether the beginning of a reply may be read as a call that the whole is not. A client that gets
// it in pieces then gets an error. With tools, the grammar of calls lets no model go on in this
// way.
bool MayNotStream(const KnownReply& reply);

// Whether the history of a template never shows what a model could write behind the prompt: it
// begins otherwise, or has no messages of an assistant.
bool ShowsNoReply(const std::string& file);

}  // namespace attndb::server

#endif  // ATTNDB_TESTS_SERVER_KNOWN_REPLIES_H_
