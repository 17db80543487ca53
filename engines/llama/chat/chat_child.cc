#include "engines/llama/chat/chat_child.h"

#include <optional>
#include <utility>

#include "engines/llama/chat/chat_limits.h"
#include "engines/llama/chat/chat_wire.h"

namespace attndb::llama {

ChatChild::ChatChild(std::string program, ChatFields greeting, std::string failed)
    : program_(std::move(program)), greeting_(std::move(greeting)), failed_(std::move(failed)) {}

Status ChatChild::Check() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Ready();
}

Result<ChatFields> ChatChild::Ask(const ChatFields& request) {
  // The process stays as it is.
  if (const Status fits = CheckFrame(request); !fits.ok()) return fits.WithContext(failed_);
  const std::lock_guard<std::mutex> lock(mutex_);
  ATTNDB_RETURN_IF_ERROR(Ready());
  return AskProcess(request);
}

Status ChatChild::Ready() {
  if (process_ != nullptr && !process_->has_ended()) return Status::Ok();
  process_.reset();
  ATTNDB_ASSIGN_OR_RETURN(process_, ChatProcess::Start(program_));
  if (greeting_.empty()) return Status::Ok();
  const Status answered = AskProcess(greeting_).status();
  if (!answered.ok()) process_.reset();
  return answered;
}

Result<ChatFields> ChatChild::AskProcess(const ChatFields& request) {
  const int socket = process_->socket();
  const Status sent = WriteFrame(socket, request, kChatWaitMs);
  Result<ChatFields> answer = sent.ok() ? ReadFrame(socket, kChatWaitMs) : Result<ChatFields>(sent);
  if (!answer.ok()) {
    // It closes its socket when it ends. Whatever else went wrong, it is ended here.
    const bool ended = answer.status().code() == StatusCode::kIoError;
    const std::optional<int> status = process_->End();
    process_.reset();
    if (ended) {
      const size_t message_bytes = FieldOf(request, "messages").size();
      return EndReason(failed_, status, ChatCpuSeconds(message_bytes));
    }
    return answer.status().WithContext(failed_);
  }
  if (const auto error = answer->find("error"); error != answer->end()) {
    return Status::InvalidArgument(error->second);
  }
  return answer;
}

}  // namespace attndb::llama
