#include "server/http/listener.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "server/http/connection.h"
#include "server/http/message_text.h"

namespace attndb::server {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kAcceptPause{50};  // After an error, as of no descriptors.
constexpr std::chrono::milliseconds kDrainStep{5};
constexpr std::chrono::seconds kLastWords{1};  // For answers that end at the deadline.
constexpr size_t kTidyEvery = 64;

class BeastListener final : public Listener {
 public:
  BeastListener(const ListenerOptions& options, Handler handler)
      : acceptor_(asio::make_strand(io_)),
        pause_(acceptor_.get_executor()),
        tls_(asio::ssl::context::tls_server) {
    setup_.options = options;
    setup_.handler = std::move(handler);
  }
  ~BeastListener() override {
    Drain(std::chrono::milliseconds(0), {});
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
    setup_.gate->Shut();  // Nobody posts to io_ any more.
  }

  Status Open();
  uint16_t port() const override { return port_; }
  uint64_t num_connections() const override { return setup_.num_connections; }
  void Drain(std::chrono::milliseconds deadline, const std::function<void()>& cut) override;

 private:
  Status LoadTls();
  void Accept();
  void OnSocket(error_code error, Tcp::socket socket);
  void RefuseSocket(Tcp::socket* socket);
  void Keep(const std::shared_ptr<Connection>& connection);
  // Runs `step` on each connection that there is.
  template <typename Step>
  void ForEach(Step step);
  // Closes each connection that there is, and each that comes later.
  void Shut();
  bool WaitUntilNone(std::chrono::steady_clock::time_point end) const;

  ConnectionSetup setup_;
  asio::io_context io_;  // Lets go of what connections there are left.
  Tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  asio::ssl::context tls_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Connection>> connections_;  // Guarded by mutex_.
  bool is_shut_ = false;  // Guarded by mutex_. Connections are closed when they come.
  std::vector<std::thread> threads_;
};

Status BeastListener::LoadTls() {
  const ListenerOptions& options = setup_.options;
  if (options.certificate_file.empty()) return Status::Ok();
  error_code error;
  tls_.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1,
                   error);
  tls_.use_certificate_chain_file(options.certificate_file, error);
  if (error) {
    return Status::InvalidArgument(options.certificate_file +
                                   ": no certificate in PEM: " + error.message());
  }
  tls_.use_private_key_file(options.private_key_file, asio::ssl::context::pem, error);
  if (error) {
    return Status::InvalidArgument(options.private_key_file +
                                   ": no private key of the certificate: " + error.message());
  }
  setup_.tls = &tls_;
  return Status::Ok();
}

Status BeastListener::Open() {
  ATTNDB_RETURN_IF_ERROR(LoadTls());
  const ListenerOptions& options = setup_.options;
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.address, error);
  if (error) {
    return Status::InvalidArgument("'" + options.address +
                                   "' is no IP address to listen on, expected one as 127.0.0.1");
  }
  const Tcp::endpoint endpoint(address, options.port);
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Status::IoError("can't listen on " + options.address + " port " +
                           std::to_string(options.port) + ": " + error.message());
  }
  port_ = acceptor_.local_endpoint().port();
  Accept();
  for (uint32_t i = 0; i < std::max(1u, options.io_threads); ++i) {
    threads_.emplace_back([this] { io_.run(); });
  }
  return Status::Ok();
}

void BeastListener::Accept() {
  acceptor_.async_accept(asio::make_strand(io_), [this](error_code error, Tcp::socket socket) {
    OnSocket(error, std::move(socket));
  });
}

void BeastListener::OnSocket(error_code error, Tcp::socket socket) {
  if (error == asio::error::operation_aborted) return;
  if (error) {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](error_code aborted) {
      if (!aborted) Accept();
    });
    return;
  }
  if (setup_.num_connections >= setup_.options.max_connections) {
    RefuseSocket(&socket);
  } else {
    socket.set_option(Tcp::no_delay(true), error);
    const std::shared_ptr<Connection> connection = MakeConnection(std::move(socket), &setup_);
    if (setup_.options.on_accepted) setup_.options.on_accepted();
    // Before it is served: a Drain that comes before this is seen by the connection, and a Drain
    // that comes after this finds the connection.
    Keep(connection);
    connection->Serve();
  }
  Accept();
}

// One connection too many. With TLS there is nobody yet to tell: it is closed.
void BeastListener::RefuseSocket(Tcp::socket* socket) {
  constexpr int kBusy = 503;
  if (setup_.options.on_refused) setup_.options.on_refused(kBusy);
  if (setup_.tls != nullptr) return;
  Response busy = RefusalOf(kBusy, "there are too many connections; try again later");
  busy.headers.emplace_back("Retry-After", "1");
  error_code error;  // It goes into the socket's buffer, or nowhere.
  asio::write(*socket, asio::buffer(HeadOf(busy, busy.body.size(), false) + busy.body), error);
}

void BeastListener::Keep(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_shut_) connection->CloseNow();
  connections_.push_back(connection);
  if (connections_.size() < 2 * setup_.num_connections + kTidyEvery) return;
  std::erase_if(connections_, [](const auto& weak) { return weak.expired(); });
}

template <typename Step>
void BeastListener::ForEach(Step step) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::weak_ptr<Connection>& weak : connections_) {
    if (const auto connection = weak.lock()) step(connection.get());
  }
}

void BeastListener::Shut() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_shut_ = true;
  }
  ForEach([](Connection* connection) { connection->CloseNow(); });
}

bool BeastListener::WaitUntilNone(std::chrono::steady_clock::time_point end) const {
  while (setup_.num_connections > 0) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kDrainStep);
  }
  return true;
}

void BeastListener::Drain(std::chrono::milliseconds deadline, const std::function<void()>& cut) {
  setup_.draining = true;
  ForEach([](Connection* connection) { connection->CloseWhenIdle(); });
  if (!WaitUntilNone(std::chrono::steady_clock::now() + deadline) && cut) {
    cut();
    WaitUntilNone(std::chrono::steady_clock::now() + kLastWords);
  }
  asio::post(acceptor_.get_executor(), [this] {
    error_code ignored;
    pause_.cancel();
    acceptor_.close(ignored);
  });
  Shut();
  // A connection that has gone already was never kept from it; a second makes sure of the rest.
  WaitUntilNone(std::chrono::steady_clock::now() + std::chrono::seconds(1));
}

}  // namespace

bool IsLoopback(const std::string& address) {
  error_code error;
  const asio::ip::address parsed = asio::ip::make_address(address, error);
  if (error) return false;
  if (!parsed.is_v6() || !parsed.to_v6().is_v4_mapped()) return parsed.is_loopback();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, parsed.to_v6()).is_loopback();
}

Result<std::unique_ptr<Listener>> Listener::Open(const ListenerOptions& options, Handler handler) {
  auto listener = std::make_unique<BeastListener>(options, std::move(handler));
  ATTNDB_RETURN_IF_ERROR(listener->Open());
  return std::unique_ptr<Listener>(std::move(listener));
}

}  // namespace attndb::server
