// One request and its answer, as those who answer see them: no socket, no HTTP library.
//
// Threads: a Request is constant. A Responder is thread-safe, and does nothing once its client is
//          gone.
#ifndef ATTNDB_SERVER_HTTP_EXCHANGE_H_
#define ATTNDB_SERVER_HTTP_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attndb::server {

struct Request {
  uint64_t id = 0;  // Counts the process's requests.
  std::string method;
  std::string path;                            // Without the query; percent signs decoded.
  std::map<std::string, std::string> headers;  // Names in lower case.
  std::string body;

  // Empty if there is none.
  std::string_view Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
  }
};

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  Headers headers = {};
  std::string body = {};
  // The words of the error, if the body tells one in the form of OpenAI's interface. Interfaces
  // with another form make their own body of these words.
  std::string error = {};
};

// Answers one request: by one Send; or by one Begin, any number of Writes and one End. Let go of
// without an answer, it answers 500; with one that has begun and not ended, it cuts that off.
class Responder {
 public:
  virtual ~Responder() = default;

  virtual void Send(Response response) = 0;

  // Begins a body that comes piece by piece; response.body is its first piece, or empty.
  virtual void Begin(Response response) = 0;
  virtual void Write(std::string piece) = 0;
  virtual void End() = 0;

  // Whether the client is gone, or too slow to be waited for.
  virtual bool closed() const = 0;
  // Calls `then` once when the client goes before the answer is complete; at once if it has gone.
  // On any thread.
  virtual void OnClosed(std::function<void()> then) = 0;
};

// Answers, or sees to it that somebody will. Called on a thread of the listener: no long work.
using Handler = std::function<void(std::shared_ptr<const Request>, std::shared_ptr<Responder>)>;

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_HTTP_EXCHANGE_H_
