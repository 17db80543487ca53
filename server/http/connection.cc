#include "server/http/connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "attndb/units.h"
#include "server/http/message_text.h"

namespace attndb::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kReadBytes = 8192;
constexpr size_t kMaxAhead = 64 << 10;  // Read of what comes behind a request.
constexpr std::chrono::seconds kDrainingIdle{1};
constexpr std::chrono::seconds kLinger{1};
constexpr std::string_view kEventStream = "text/event-stream";
constexpr std::string_view kPing = ":\n\n";

// False for a timer that was set anew after its handler was queued.
bool IsOver(const asio::steady_timer& timer) {
  return timer.expiry() <= asio::steady_timer::clock_type::now();
}

// What a Responder and its connection share; the connection may be gone first.
class ClosedFlag {
 public:
  bool get() const { return closed_.load(std::memory_order_acquire); }
  void Set() {
    std::function<void()> then;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_.store(true, std::memory_order_release);
      then = std::exchange(then_, nullptr);
    }
    if (then) then();
  }
  void Then(std::function<void()> then) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!get()) {
        then_ = std::move(then);
        return;
      }
    }
    then();
  }
  void Forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    then_ = nullptr;
  }

 private:
  std::atomic<bool> closed_ = false;
  std::mutex mutex_;
  std::function<void()> then_;  // Guarded by mutex_.
};

template <typename Stream>
class ConnectionOf final : public Connection,
                           public std::enable_shared_from_this<ConnectionOf<Stream>> {
 public:
  template <typename... StreamArgs>
  explicit ConnectionOf(ConnectionSetup* setup, StreamArgs&&... args)
      : setup_(setup),
        stream_(std::forward<StreamArgs>(args)...),
        deadline_(stream_.get_executor()),
        write_deadline_(stream_.get_executor()),
        ping_(stream_.get_executor()) {
    setup_->num_connections.fetch_add(1);
  }
  ~ConnectionOf() override { setup_->num_connections.fetch_sub(1); }

  void Serve() override {
    Post([](auto* self) { self->Start(); });
  }
  void CloseWhenIdle() override {
    Post([](auto* self) {
      self->closes_ = true;
      if (self->state_ == State::kIdle) self->Close();
    });
  }
  void CloseNow() override {
    Post([](auto* self) { self->Close(); });
  }

  // Runs `step` on the strand.
  template <typename Step>
  void Post(Step step) {
    asio::post(stream_.get_executor(), [self = this->shared_from_this(),
                                        step = std::move(step)]() mutable { step(self.get()); });
  }

  // A Responder's, on the strand; `exchange` says of which request.
  void Send(uint64_t exchange, Response response);
  void Begin(uint64_t exchange, Response response);
  void Write(uint64_t exchange, const std::string& piece);
  void End(uint64_t exchange);
  // The Responder is gone.
  void Abandon(uint64_t exchange);

 private:
  enum class State : uint8_t { kIdle, kReading, kAnswering, kStreaming, kLeaving, kClosed };

  auto& socket() { return stream_.lowest_layer(); }

  void Start();
  void Read();
  void OnBytes(error_code error, size_t num_bytes);
  void Parse();
  void TakeFields();
  void OnRequest(error_code error);
  void Refuse(int status, std::string_view why);
  void Answer();
  void NextRequest();
  void Push(std::string bytes);
  void WriteFront();
  void OnWritten(error_code error, size_t num_bytes);
  void Linger();
  void SchedulePing();
  void Close();

  // Ends a request, or a connection without one, that has not come when the time is over.
  void Expire(std::chrono::seconds after) {
    timed_out_ = false;
    deadline_.expires_after(after);
    deadline_.async_wait([weak = this->weak_from_this()](error_code error) {
      const auto self = weak.lock();
      if (error || self == nullptr || !IsOver(self->deadline_)) return;
      if (self->state_ == State::kClosed) return;
      self->timed_out_ = true;
      if (self->state_ == State::kReading) return self->OnRequest({});
      self->Close();
    });
  }

  ConnectionSetup* const setup_;
  Stream stream_;
  asio::steady_timer deadline_;
  asio::steady_timer write_deadline_;
  asio::steady_timer ping_;

  State state_ = State::kIdle;
  std::array<char, kReadBytes> chunk_ = {};  // What the read under way fills.
  bool reading_ = false;
  std::string ahead_;  // Came, and is not parsed yet.
  std::optional<http::request_parser<http::string_body>> parser_;
  size_t num_head_bytes_ = 0;                  // Taken of the head of the request under way.
  std::map<std::string, std::string> fields_;  // The head's, once all of it is parsed.
  bool says_continue_ = false;                 // It was decided whether to.
  bool timed_out_ = false;
  bool keep_alive_ = false;
  bool takes_chunks_ = true;  // False: HTTP/1.0.
  bool head_only_ = false;    // The request is a HEAD: the answer has no body.
  bool closes_ = false;       // Behind the next answer.
  bool is_events_ = false;
  uint64_t exchange_ = 0;  // The request that is answered.
  std::shared_ptr<ClosedFlag> closed_;
  std::deque<std::string> unsent_;
  uint64_t unsent_bytes_ = 0;
  size_t num_sent_ = 0;  // Bytes of the first of unsent_ that are sent.
  bool closes_when_sent_ = false;
  bool lingers_ = false;
};

template <typename Stream>
class ResponderOf final : public Responder {
 public:
  ResponderOf(std::weak_ptr<ConnectionOf<Stream>> connection, uint64_t exchange,
              std::shared_ptr<ClosedFlag> closed, std::shared_ptr<Gate> gate)
      : connection_(std::move(connection)),
        exchange_(exchange),
        closed_(std::move(closed)),
        gate_(std::move(gate)) {}
  ~ResponderOf() override {
    if (ended_ || (sent_ && !begun_)) return;
    Post([exchange = exchange_](auto* connection) { connection->Abandon(exchange); });
  }

  void Send(Response response) override {
    sent_ = true;  // Behind a Begin it is nothing: a stream that fails is cut off.
    Post([exchange = exchange_, response = std::move(response)](auto* connection) mutable {
      connection->Send(exchange, std::move(response));
    });
  }
  void Begin(Response response) override {
    begun_ = true;
    Post([exchange = exchange_, response = std::move(response)](auto* connection) mutable {
      connection->Begin(exchange, std::move(response));
    });
  }
  void Write(std::string piece) override {
    Post([exchange = exchange_, piece = std::move(piece)](auto* connection) {
      connection->Write(exchange, piece);
    });
  }
  void End() override {
    ended_ = true;
    Post([exchange = exchange_](auto* connection) { connection->End(exchange); });
  }
  bool closed() const override { return closed_->get(); }
  void OnClosed(std::function<void()> then) override { closed_->Then(std::move(then)); }

 private:
  template <typename Step>
  void Post(Step step) {
    gate_->Pass([this, &step] {
      if (const auto connection = connection_.lock()) connection->Post(std::move(step));
    });
  }

  const std::weak_ptr<ConnectionOf<Stream>> connection_;
  const uint64_t exchange_;
  const std::shared_ptr<ClosedFlag> closed_;
  const std::shared_ptr<Gate> gate_;
  std::atomic<bool> sent_ = false;
  std::atomic<bool> begun_ = false;
  std::atomic<bool> ended_ = false;
};

template <typename Stream>
void ConnectionOf<Stream>::Start() {
  if (state_ == State::kClosed) return;  // The listener drains.
  if constexpr (std::is_same_v<Stream, Tcp::socket>) {
    NextRequest();
  } else {
    Expire(setup_->options.request_timeout);
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [self = this->shared_from_this()](error_code error) {
                              if (error) return self->Close();
                              self->NextRequest();
                            });
  }
}

template <typename Stream>
void ConnectionOf<Stream>::NextRequest() {
  state_ = State::kIdle;
  parser_.reset();
  if (closes_) return Close();
  Expire(setup_->draining ? kDrainingIdle : setup_->options.idle_timeout);
  Parse();
}

// Reads what comes; while an answer is made, if only to see that the client is still there.
template <typename Stream>
void ConnectionOf<Stream>::Read() {
  // The parser sees to the limits of a request.
  if (reading_ || (state_ != State::kReading && ahead_.size() >= kMaxAhead)) return;
  reading_ = true;
  stream_.async_read_some(asio::buffer(chunk_),
                          [self = this->shared_from_this()](error_code error, size_t num_bytes) {
                            self->OnBytes(error, num_bytes);
                          });
}

template <typename Stream>
void ConnectionOf<Stream>::OnBytes(error_code error, size_t num_bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error) return state_ == State::kReading ? OnRequest(error) : Close();
  if (state_ == State::kLeaving) return Read();  // Nobody wants it any more.
  ahead_.append(chunk_.data(), num_bytes);
  if (state_ == State::kIdle || state_ == State::kReading) return Parse();
  Read();
}

template <typename Stream>
void ConnectionOf<Stream>::Parse() {
  if (!parser_) {
    // Empty lines before a request are no part of it (RFC 9112, 2.2).
    ahead_.erase(0, std::min(ahead_.find_first_not_of("\r\n"), ahead_.size()));
    if (ahead_.empty()) return Read();
    state_ = State::kReading;
    Expire(setup_->options.request_timeout);
    says_continue_ = false;
    num_head_bytes_ = 0;
    parser_.emplace();
    parser_->header_limit(setup_->options.max_header_bytes);
    parser_->body_limit(setup_->options.max_body_bytes);
  }
  size_t done = 0;
  error_code error;
  while (!error && !parser_->is_done() && done < ahead_.size()) {
    const bool is_head = !parser_->is_header_done();
    const size_t num_used =
        parser_->put(asio::buffer(ahead_.data() + done, ahead_.size() - done), error);
    done += num_used;
    if (is_head) num_head_bytes_ += num_used;
    if (is_head && parser_->is_header_done()) TakeFields();
    if (num_used == 0) break;
  }
  ahead_.erase(0, done);
  if (error && error != http::error::need_more) return OnRequest(error);
  // The parser forgets the fields that it has taken when it limits the others, and of a chunk's
  // line and of trailers it has no limit. What it has not taken is no part of a body.
  const size_t num_begun = parser_->is_done() ? 0 : ahead_.size();
  if (num_head_bytes_ + num_begun > setup_->options.max_header_bytes) {
    return OnRequest(http::error::header_limit);
  }
  if (parser_->is_done()) return Answer();
  if (parser_->is_header_done() && !std::exchange(says_continue_, true) &&
      LowerCase(parser_->get()[http::field::expect]) == "100-continue") {
    Push("HTTP/1.1 100 Continue\r\n\r\n");
  }
  Read();
}

// Keeps the head's fields: a trailer's, which the parser puts with them later, say nothing of the
// request (RFC 9110, 6.5.1).
template <typename Stream>
void ConnectionOf<Stream>::TakeFields() {
  fields_.clear();
  for (const auto& field : parser_->get()) {
    fields_[LowerCase(field.name_string())] = std::string(field.value());
  }
}

// What came is no request.
template <typename Stream>
void ConnectionOf<Stream>::OnRequest(error_code error) {
  if (timed_out_) return Refuse(408, "the request did not come to its end in time");
  if (error == http::error::body_limit) {
    return Refuse(413, "the body is longer than " + FormatBytes(setup_->options.max_body_bytes));
  }
  if (error == http::error::header_limit) return Refuse(431, "the header fields are too long");
  if (error.category() == make_error_code(http::error::bad_method).category()) {
    return Refuse(400, "not an HTTP/1.1 request: " + error.message());
  }
  Close();  // The client is gone.
}

// Answers what could not be read, and closes: what follows can't be told from the rest of it.
template <typename Stream>
void ConnectionOf<Stream>::Refuse(int status, std::string_view why) {
  Response response = RefusalOf(status, why);
  if (setup_->options.refusal_body) {
    const std::optional<std::string> path =
        parser_ ? PathOf(parser_->get().target()) : std::nullopt;
    std::string body = setup_->options.refusal_body(path.value_or(""), status, why);
    if (!body.empty()) response.body = std::move(body);
  }
  if (setup_->options.on_refused) setup_->options.on_refused(status);
  deadline_.cancel();
  closes_when_sent_ = true;
  lingers_ = true;
  state_ = State::kAnswering;
  Push(HeadOf(response, response.body.size(), false) + response.body);
}

template <typename Stream>
void ConnectionOf<Stream>::Answer() {
  deadline_.cancel();
  const auto& message = parser_->get();
  auto request = std::make_shared<Request>();
  request->id = setup_->num_requests.fetch_add(1) + 1;
  request->method = std::string(message.method_string());
  std::optional<std::string> path = PathOf(message.target());
  if (!path) return Refuse(400, "the request's target is not a path");
  // The parser takes what follows it for the next request, which another server would not.
  if (fields_.contains("transfer-encoding") && !parser_->chunked()) {
    return Refuse(400, "the transfer encoding of the body is not chunked");
  }
  request->path = *std::move(path);
  request->headers = std::exchange(fields_, {});
  keep_alive_ = message.keep_alive();
  takes_chunks_ = message.version() >= 11;
  head_only_ = message.method() == http::verb::head;
  request->body = std::move(parser_->get().body());
  parser_.reset();
  state_ = State::kAnswering;
  closed_ = std::make_shared<ClosedFlag>();
  Read();
  setup_->handler(std::move(request),
                  std::make_shared<ResponderOf<Stream>>(this->weak_from_this(), ++exchange_,
                                                        closed_, setup_->gate));
}

template <typename Stream>
void ConnectionOf<Stream>::Send(uint64_t exchange, Response response) {
  if (exchange != exchange_ || state_ != State::kAnswering) return;
  const bool keep_alive = keep_alive_ && !closes_ && !setup_->draining;
  std::string bytes = HeadOf(response, response.body.size(), keep_alive);
  if (!head_only_) bytes += response.body;
  closed_->Forget();
  closes_when_sent_ = !keep_alive;
  Push(std::move(bytes));
  if (state_ != State::kClosed && keep_alive) NextRequest();
}

template <typename Stream>
void ConnectionOf<Stream>::Begin(uint64_t exchange, Response response) {
  if (exchange != exchange_ || state_ != State::kAnswering) return;
  state_ = State::kStreaming;
  // The end of a body that comes in no chunks is the end of the connection.
  keep_alive_ = keep_alive_ && takes_chunks_ && !setup_->draining;
  is_events_ = response.content_type == kEventStream;
  std::string bytes = HeadOf(response, takes_chunks_ ? kInChunks : kToItsEnd, keep_alive_);
  Push(std::move(bytes));
  Write(exchange, response.body);
  if (is_events_) SchedulePing();
}

template <typename Stream>
void ConnectionOf<Stream>::Write(uint64_t exchange, const std::string& piece) {
  if (exchange != exchange_ || state_ != State::kStreaming || piece.empty() || head_only_) return;
  Push(takes_chunks_ ? ChunkOf(piece) : piece);
  if (is_events_) SchedulePing();
}

template <typename Stream>
void ConnectionOf<Stream>::End(uint64_t exchange) {
  if (exchange != exchange_ || state_ != State::kStreaming) return;
  ping_.cancel();
  closed_->Forget();
  closes_when_sent_ = !keep_alive_ || closes_;
  Push(takes_chunks_ && !head_only_ ? std::string(kLastChunk) : std::string());
  if (state_ != State::kClosed && !closes_when_sent_) NextRequest();
}

template <typename Stream>
void ConnectionOf<Stream>::Abandon(uint64_t exchange) {
  if (exchange != exchange_) return;
  if (state_ == State::kStreaming) return Close();  // So that what there is looks like no whole.
  Send(exchange, {.status = 500, .body = R"({"error":{"message":"no answer","code":500}})"});
}

template <typename Stream>
void ConnectionOf<Stream>::Push(std::string bytes) {
  if (state_ == State::kClosed) return;
  unsent_bytes_ += bytes.size();
  // A single answer may be longer; a stream's reader that does not keep up is let go.
  if (!unsent_.empty() && unsent_bytes_ > setup_->options.max_unsent_bytes) return Close();
  unsent_.push_back(std::move(bytes));
  if (unsent_.size() == 1) WriteFront();
}

// Writes what the socket takes of the first piece.
template <typename Stream>
void ConnectionOf<Stream>::WriteFront() {
  write_deadline_.expires_after(setup_->options.write_timeout);
  write_deadline_.async_wait([weak = this->weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (!error && self != nullptr && IsOver(self->write_deadline_)) self->Close();
  });
  const std::string& front = unsent_.front();
  stream_.async_write_some(asio::buffer(front.data() + num_sent_, front.size() - num_sent_),
                           [self = this->shared_from_this()](error_code error, size_t num_bytes) {
                             self->OnWritten(error, num_bytes);
                           });
}

template <typename Stream>
void ConnectionOf<Stream>::OnWritten(error_code error, size_t num_bytes) {
  write_deadline_.cancel();
  if (state_ == State::kClosed) return;
  if (error) return Close();
  num_sent_ += num_bytes;
  unsent_bytes_ -= num_bytes;
  if (num_sent_ == unsent_.front().size()) {
    unsent_.pop_front();
    num_sent_ = 0;
  }
  if (!unsent_.empty()) return WriteFront();
  if (!closes_when_sent_) return;
  if (lingers_) return Linger();
  Close();
}

// A client that is still sending would lose the answer, if its connection were closed at once.
template <typename Stream>
void ConnectionOf<Stream>::Linger() {
  state_ = State::kLeaving;
  error_code ignored;
  socket().shutdown(Tcp::socket::shutdown_send, ignored);
  ahead_.clear();
  Expire(kLinger);
  Read();
}

template <typename Stream>
void ConnectionOf<Stream>::SchedulePing() {
  ping_.expires_after(setup_->options.ping_interval);
  ping_.async_wait([weak = this->weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (error || self == nullptr || !IsOver(self->ping_)) return;
    if (self->state_ != State::kStreaming) return;
    self->Write(self->exchange_, std::string(kPing));
  });
}

template <typename Stream>
void ConnectionOf<Stream>::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  deadline_.cancel();
  write_deadline_.cancel();
  ping_.cancel();
  error_code ignored;
  socket().shutdown(Tcp::socket::shutdown_both, ignored);
  socket().close(ignored);
  if (closed_ != nullptr) closed_->Set();
}

}  // namespace

std::shared_ptr<Connection> MakeConnection(Tcp::socket socket, ConnectionSetup* setup) {
  if (setup->tls == nullptr) {
    return std::make_shared<ConnectionOf<Tcp::socket>>(setup, std::move(socket));
  }
  return std::make_shared<ConnectionOf<asio::ssl::stream<Tcp::socket>>>(setup, std::move(socket),
                                                                        *setup->tls);
}

}  // namespace attndb::server
