#include "engines/llama/chat/grammar_program.h"

#include <llama.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engines/llama/chat/chat_frames.h"
#include "engines/llama/chat/grammar_worker.h"
#include "engines/llama/chat/program_limits.h"
#include "engines/llama/chat/token_tree.h"
#include "engines/llama/chat/vocab_digest.h"
#include "engines/llama/llama_handles.h"

namespace attndb::llama {
namespace {

// Its other messages have the text of replies.
void PrintErrors(ggml_log_level level, const char* text, void* /*data*/) {
  if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

ModelHandle LoadVocabulary(const std::string& path) {
  ggml_backend_dev_t no_devices[] = {nullptr};
  llama_model_params params = llama_model_default_params();
  params.devices = no_devices;
  params.vocab_only = true;
  try {
    ModelHandle model(llama_model_load_from_file(path.c_str(), params));
    if (model == nullptr) return nullptr;
    const bool has_any =
        llama_vocab_type(llama_model_get_vocab(model.get())) != LLAMA_VOCAB_TYPE_NONE;
    return has_any ? std::move(model) : nullptr;
  } catch (const std::exception&) {
    return nullptr;
  }
}

// The socket that comes with a byte on `socket`; -1: the other end is closed.
int ReceiveSocket(int socket) {
  char byte = 0;
  iovec bytes = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t length = 0;
  while ((length = recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  const cmsghdr* const header = length == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int received = -1;
  std::memcpy(&received, CMSG_DATA(header), sizeof(received));
  return received;
}

class GrammarProgram {
 public:
  GrammarProgram(int socket, const std::string& path)
      : socket_(socket), path_(path), model_(LoadVocabulary(path)) {
    if (model_ == nullptr) return;
    digest_ = VocabDigest(llama_model_get_vocab(model_.get()));
    tree_.emplace(llama_model_get_vocab(model_.get()));
  }

  void Run() {
    // A process that ends interrupts the wait, and nothing else.
    std::signal(SIGCHLD, [](int /*signal*/) {});
    sigset_t child_ends;
    sigemptyset(&child_ends);
    sigaddset(&child_ends, SIGCHLD);
    sigset_t others;
    sigprocmask(SIG_BLOCK, &child_ends, &others);
    while (true) {
      EndWorkers();
      pollfd waited = {.fd = socket_, .events = POLLIN, .revents = 0};
      if (ppoll(&waited, 1, nullptr, &others) < 0) {
        if (errno == EINTR) continue;
        return;
      }
      const int job = ReceiveSocket(socket_);
      if (job < 0) return;
      StartWorker(job);
    }
  }

 private:
  void StartWorker(int job) {
    if (model_ == nullptr) return Refuse(job, "the vocabulary of '" + path_ + "' can't be loaded");
    const pid_t worker = fork();
    if (worker < 0) return Refuse(job, std::string("a process for it: ") + std::strerror(errno));
    if (worker > 0) {
      workers_[worker] = job;
      return;
    }
    // The sockets of others would not close while this process has them.
    close(socket_);
    for (const auto& [other, socket] : workers_) close(socket);
    if (!LimitMemory()) _exit(EXIT_FAILURE);
    RunGrammarWorker(job, {llama_model_get_vocab(model_.get()), &*tree_, digest_});
    _exit(EXIT_SUCCESS);
  }

  static void Refuse(int job, const std::string& why) {
    static_cast<void>(WriteFrame(job, {{"failed", why}}, 0));
    close(job);
  }

  // Tells the peers of processes that have ended.
  void EndWorkers() {
    int status = 0;
    for (pid_t worker = 0; (worker = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = workers_.find(worker);
      if (found == workers_.end()) continue;
      static_cast<void>(WriteFrame(found->second, {{"ended", std::to_string(status)}}, 0));
      close(found->second);
      workers_.erase(found);
    }
  }

  const int socket_;
  const std::string path_;
  const ModelHandle model_;  // Null: it can't be loaded.
  std::string digest_;
  std::optional<TokenTree> tree_;
  std::map<pid_t, int> workers_;  // The sockets that they answer on.
};

}  // namespace

int RunGrammarProgram(int socket) {
  llama_log_set(PrintErrors, nullptr);
  const Result<ChatFields> first = ReadFrame(socket);
  if (!first.ok() || !first->contains("model")) return EXIT_FAILURE;
  GrammarProgram(socket, first->at("model")).Run();
  return EXIT_SUCCESS;
}

}  // namespace attndb::llama
