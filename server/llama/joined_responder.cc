#include "server/llama/joined_responder.h"

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "server/http/event_text.h"

namespace attndb::server {
namespace {

constexpr int kFirstOfErrors = 400;

// Joins the answers to all choices of a request.
class Joined {
 public:
  Joined(std::shared_ptr<Responder> responder, size_t num_choices)
      : responder_(std::move(responder)), answers_(num_choices), num_open_(num_choices) {}

  void Send(size_t index, Response response) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool is_error = response.status >= kFirstOfErrors;
    if (is_error && begun_) {
      WriteError(response);
    } else if (is_error) {
      errors_.push_back(std::move(response));
    } else {
      answers_[index] = std::move(response);
    }
    Close();
  }
  void Begin(Response response) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(begun_, true)) return responder_->Write(std::move(response.body));
    responder_->Begin(std::move(response));
    for (const Response& error : errors_) WriteError(error);
  }
  void Write(std::string piece) {
    const std::lock_guard<std::mutex> lock(mutex_);
    responder_->Write(std::move(piece));
  }
  void End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    Close();
  }
  bool closed() const { return responder_->closed(); }
  void OnClosed(std::function<void()> then) { responder_->OnClosed(std::move(then)); }

 private:
  // These need mutex_.
  void WriteError(const Response& error) { responder_->Write(EventText(error.body)); }
  void Close() {
    if (--num_open_ > 0) return;
    if (begun_) return responder_->End();
    if (!errors_.empty()) return responder_->Send(std::move(errors_.front()));
    Response all = std::move(answers_.front());
    for (size_t i = 1; i < answers_.size(); ++i) all.body += "," + answers_[i].body;
    all.body = "[" + all.body + "]";
    responder_->Send(std::move(all));
  }

  const std::shared_ptr<Responder> responder_;
  std::mutex mutex_;
  bool begun_ = false;
  std::vector<Response> answers_;
  std::vector<Response> errors_;  // Those that came before a stream began.
  size_t num_open_;
};

class ChoiceResponder final : public Responder {
 public:
  ChoiceResponder(std::shared_ptr<Joined> joined, size_t index)
      : joined_(std::move(joined)), index_(index) {}

  void Send(Response response) override { joined_->Send(index_, std::move(response)); }
  void Begin(Response response) override { joined_->Begin(std::move(response)); }
  void Write(std::string piece) override { joined_->Write(std::move(piece)); }
  void End() override { joined_->End(); }
  bool closed() const override { return joined_->closed(); }
  void OnClosed(std::function<void()> then) override { joined_->OnClosed(std::move(then)); }

 private:
  const std::shared_ptr<Joined> joined_;
  const size_t index_;
};

}  // namespace

std::vector<std::shared_ptr<Responder>> JoinedResponders(
    const std::shared_ptr<Responder>& responder, size_t num_choices) {
  if (num_choices == 1) return {responder};
  const auto joined = std::make_shared<Joined>(responder, num_choices);
  std::vector<std::shared_ptr<Responder>> choices;
  for (size_t i = 0; i < num_choices; ++i) {
    choices.push_back(std::make_shared<ChoiceResponder>(joined, i));
  }
  return choices;
}

}  // namespace attndb::server
