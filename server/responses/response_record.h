// The record of a response. It is stored as the note of the response's context, so that a client
// sends only what is new, after a restart, too.
//
// Form:    JSON: the members of the request, and "attndb" with the rest. The reply stands in it as
//          the model wrote it, and is read again as it was first.
// Threads: stateless.
#ifndef ATTNDB_SERVER_RESPONSES_RESPONSE_RECORD_H_
#define ATTNDB_SERVER_RESPONSES_RESPONSE_RECORD_H_

#include <cstdint>
#include <string>

#include "attndb/result.h"
#include "server/responses/response_object.h"
#include "server/responses/response_request.h"

namespace attndb::server {

struct ResponseRecord {
  ResponseFrame frame;
  ResponseRequest request;  // With its conversation.
  std::string reply;        // As the model wrote it.
  bool is_cut = false;      // The reply has the form of a beginning: the model did not end it.
  std::string status;
  Json usage;
};

// The beginning of a record's text: all that is known before the reply. `before`: the messages in
// front of the request's input.
std::string RecordFront(const ResponseFrame& frame, const ResponseRequest& request,
                        const ChatMessages& before);
// The text of the record behind its beginning. Takes as long as the reply is.
std::string RecordEnd(const ResponseRecord& record);

// Errors: kNotFound: the note is none of a response.
Result<ResponseRecord> ParseRecord(const std::string& context, const std::string& note);

// Counts the reasoning of a reply that was read again, where the record does not: nobody told the
// marks of the model's thinking when the response was stored. `num_tokens`: of the reasoning.
void CountReasoning(uint64_t num_tokens, ResponseRecord* record);

// The assistant's message that a reply is in the next request.
llama::ChatMessage MessageOf(const llama::ReadReply& reply);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_RESPONSES_RESPONSE_RECORD_H_
