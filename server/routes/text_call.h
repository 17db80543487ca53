// A request for text, whatever interface it came by: from what is asked to a turn of the scheduler.
#ifndef ATTNDB_SERVER_ROUTES_TEXT_CALL_H_
#define ATTNDB_SERVER_ROUTES_TEXT_CALL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "server/chat/reply_writer.h"
#include "server/json.h"
#include "server/openai/text_request.h"
#include "server/service.h"

namespace attndb::server {

// An interface: how its bodies are read, and how its answers are written.
struct TextInterface {
  bool is_chat = true;
  std::function<Result<TextRequest>(const Json& body)> parse;
  // Names a context that `parse` looks for in the store, where it may still be on its way to:
  // `parse` is called when it is there. Null: it looks for none.
  std::function<std::string(const Json& body)> before = nullptr;
  // Makes the writer of the answer to `call`. Called once the request is known to be right. Null:
  // `writers` makes one for each choice.
  std::function<std::shared_ptr<ReplyWriter>(Service* service, const Call& call,
                                             const TextRequest& asked)>
      writer = nullptr;
  // Makes a writer for each of asked.num_choices choices. Null: an answer has one choice.
  std::function<std::vector<std::shared_ptr<ReplyWriter>>(Service* service, const Call& call,
                                                          const TextRequest& asked)>
      writers = nullptr;
  // Gives the note that a turn is stored with. `reply`: all that the model wrote. Null: there is no
  // note.
  std::function<std::string(const TurnStart& start, const TurnEnd& end, const std::string& reply)>
      note = nullptr;
  // Makes the id of a call to which the model gives none: of so many such calls before it. Null:
  // any.
  std::function<std::string(const std::string& context, size_t index)> call_id = nullptr;
};

// Prepares a chat for its template, by what the server was started with. Deletes lines of its
// system messages (ServerOptions::ignored_lines), and notes how many. Gives it template variables
// (ServerOptions::chat_variables), where the request has none of the name.
void PrepareChat(const Service& service, TextRequest* asked);

// The number of tokens of a text; 0 if it can't be tokenized. Counts the reasoning of a model whose
// marks of thinking are unknown.
uint64_t NumTokens(const llama::LlamaEngine& engine, const std::string& text);

// Answers later, on other threads: Service::run_later, then the scheduler's.
void AnswerText(Service* service, Call call, TextInterface interface);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_TEXT_CALL_H_
