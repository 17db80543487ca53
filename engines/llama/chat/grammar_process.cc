#include "engines/llama/chat/grammar_process.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "engines/llama/chat/chat_limits.h"
#include "engines/llama/chat/chat_wire.h"
#include "engines/llama/chat/grammar_program.h"
#include "engines/llama/chat/vocab_digest.h"

namespace attndb::llama {
namespace {

constexpr size_t kMostGrammarBytes = size_t{16} << 20;

Status CheckText(std::string_view name, std::string_view text) {
  if (text.size() > kMostGrammarBytes) {
    return Status::InvalidArgument(std::string(name) + " has " + std::to_string(text.size()) +
                                   " bytes, at most 16 MiB are taken");
  }
  if (text.find('\0') != std::string_view::npos) {
    return Status::InvalidArgument(std::string(name) + " has a zero byte");
  }
  return Status::Ok();
}

Status CheckConstraint(const ReplyConstraint& constraint) {
  if (constraint.grammar.empty()) return Status::InvalidArgument("the grammar is empty");
  ATTNDB_RETURN_IF_ERROR(CheckText("the grammar", constraint.grammar));
  ATTNDB_RETURN_IF_ERROR(CheckText("the text before the grammar", constraint.before));
  for (const GrammarTrigger& trigger : constraint.triggers) {
    ATTNDB_RETURN_IF_ERROR(CheckText("a trigger of the grammar", trigger.text));
  }
  return Status::Ok();
}

ChatFields RequestOf(const ReplyConstraint& constraint, const std::string& digest) {
  ChatFields request = {{"grammar", constraint.grammar}, {"vocabulary", digest}};
  if (!constraint.is_lazy) {
    request["before"] = constraint.before;
    return request;
  }
  request["lazy"] = "";
  PutTriggers(constraint.triggers, &request);
  return request;
}

// Gives `sent` to the process at the other end of `socket`.
Status SendSocket(int socket, int sent) {
  char byte = 0;
  iovec bytes = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &sent, sizeof(sent));
  while (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    return Status::IoError(std::string("no process for a grammar: ") + std::strerror(errno));
  }
  return Status::Ok();
}

}  // namespace

GrammarProcess::GrammarProcess(std::string program, std::string model_path,
                               const llama_vocab* vocab)
    : program_(std::move(program)), model_path_(std::move(model_path)), vocab_(vocab) {}

Result<std::unique_ptr<GrammarJob>> GrammarProcess::Start(const ReplyConstraint& constraint) {
  if (llama_vocab_type(vocab_) == LLAMA_VOCAB_TYPE_NONE) {
    return Status::Unsupported("a grammar needs a tokenizer, and the model file has none");
  }
  ATTNDB_RETURN_IF_ERROR(CheckConstraint(constraint));
  const std::lock_guard<std::mutex> lock(mutex_);
  ATTNDB_ASSIGN_OR_RETURN(ChatProcess* const process, Ready());
  const ChatFields request = RequestOf(constraint, digest_);
  ATTNDB_RETURN_IF_ERROR(CheckFrame(request));
  std::array<int, 2> sockets;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    return Status::IoError(std::string("no socket for a grammar: ") + std::strerror(errno));
  }
  const Status sent = SendSocket(process->socket(), sockets[1]);
  close(sockets[1]);
  if (!sent.ok()) {
    close(sockets[0]);
    return sent;
  }
  return std::make_unique<GrammarJob>(sockets[0], request);
}

Result<ChatProcess*> GrammarProcess::Ready() {
  if (process_ != nullptr && !process_->has_ended()) return process_.get();
  process_.reset();
  if (digest_.empty()) digest_ = VocabDigest(vocab_);
  ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<ChatProcess> process,
                          ChatProcess::Start(program_, kGrammarArgument));
  ATTNDB_RETURN_IF_ERROR(WriteFrame(process->socket(), {{"model", model_path_}}, kChatWaitMs));
  process_ = std::move(process);
  return process_.get();
}

}  // namespace attndb::llama
