// Joins the answers to the choices of one request, as llama.cpp's server does: to a list of
// objects, or to one stream that has the events of all choices.
//
// Errors:  an answer that is no stream is the first error of a choice, if there is one. A stream
//          that has begun has the errors as events, and the other choices go on.
// Threads: thread-safe, with one thread at a time for each choice.
#ifndef ATTNDB_SERVER_LLAMA_JOINED_RESPONDER_H_
#define ATTNDB_SERVER_LLAMA_JOINED_RESPONDER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "server/http/exchange.h"

namespace attndb::server {

// Returns a responder for each choice. Their bodies are JSON, and their streams have events. The
// headers of an answer are those of the choice that begins it, or of the first one.
std::vector<std::shared_ptr<Responder>> JoinedResponders(
    const std::shared_ptr<Responder>& responder, size_t num_choices);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_LLAMA_JOINED_RESPONDER_H_
