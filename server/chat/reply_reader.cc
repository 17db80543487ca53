#include "server/chat/reply_reader.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <string>

#include "server/batch/turn_id.h"
#include "server/chat/open_brackets.h"
#include "server/chat/reply_deltas.h"
#include "server/chat/utf8_pieces.h"

namespace attndb::server {

std::string NewCallId() {
  constexpr std::string_view kCharacters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr size_t kIdBytes = 32;
  std::string id;
  while (id.size() < kIdBytes) id += kCharacters[RandomBits() % kCharacters.size()];
  return id;
}

// New text of a reply waits here until a thread takes all of it.
class ReplyReader::Strand final : public std::enable_shared_from_this<Strand> {
 public:
  Strand(ReplyReading reading, std::shared_ptr<ReplyWriter> writer)
      : reading_(std::move(reading)), writer_(std::move(writer)) {}

  void AddText(std::string_view text) {
    Add(reading_.streams, [text](Waiting* waiting) { waiting->text += text; });
  }
  void AddChances(std::vector<llama::ReplyToken> tokens) {
    Add(false, [&tokens](Waiting* waiting) {
      waiting->chances.insert(waiting->chances.end(), std::make_move_iterator(tokens.begin()),
                              std::make_move_iterator(tokens.end()));
    });
  }
  void AddEnd(const TurnEnd& end) {
    Add(true, [&end](Waiting* waiting) { waiting->end = end; });
  }
  void AddError(const Status& status) {
    Add(true, [&status](Waiting* waiting) { waiting->error = status; });
  }
  // The listener is gone.
  void Leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_left_ = !has_end_;
  }

 private:
  struct Waiting {
    std::string text;
    std::vector<llama::ReplyToken> chances;
    std::optional<TurnEnd> end;
    std::optional<Status> error;
  };

  // `is_due`: a thread takes it soon. If not, it waits for something that is due.
  void Add(bool is_due, const std::function<void(Waiting* waiting)>& add) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      add(&waiting_);
      has_end_ = has_end_ || waiting_.end || waiting_.error;
      is_due_ = is_due_ || is_due;
      if (!is_due_ || std::exchange(is_posted_, true)) return;
    }
    Post();
  }
  void Post() {
    reading_.run_later([self = shared_from_this()] { self->Work(); });
  }
  // Reads once what waits.
  void Work() {
    std::optional<Waiting> taken = Take();
    if (!taken) return;
    try {
      Handle(std::move(*taken));
    } catch (const std::bad_alloc&) {
      Fail(Status::ResourceExhausted("no memory to read the reply"));
    } catch (const std::exception& e) {
      Fail(Status::Internal(e.what()));
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_posted_ = is_due_ && !is_over_;
      if (!is_posted_) return;
    }
    Post();  // Behind the work of others.
  }
  std::optional<Waiting> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_left_) return std::nullopt;  // is_posted_ stays: no more is posted.
    is_due_ = false;
    return std::exchange(waiting_, {});
  }

  void Handle(Waiting taken) {
    if (is_over_) return;
    if (taken.error) {
      is_over_ = true;
      return writer_->OnError(*taken.error);
    }
    AddCharacters(characters_.Push(taken.text));
    if (taken.end) AddCharacters(characters_.Finish());
    if (brackets_.is_too_deep()) {
      return Fail(Status::Internal("the reply can't be read: more than " +
                                   std::to_string(kMaxOpenBrackets) + " brackets are open in it"));
    }
    if (!taken.chances.empty()) writer_->OnChances(std::move(taken.chances));
    if (reading_.continues && !SkipFront()) return;
    if (taken.end) return ReadWhole(*taken.end);
    if (!taken.text.empty()) ReadPart();
  }
  void AddCharacters(const std::string& characters) {
    text_ += characters;
    brackets_.Add(characters);
  }
  // Notes what the client has already. False: the reply has failed.
  bool SkipFront() {
    if (std::exchange(is_front_read_, true)) return true;
    Result<llama::ReadReply> front = reading_.read("", /*is_partial=*/true);
    if (front.status().code() == StatusCode::kInvalidArgument) return true;  // It says nothing yet.
    if (!front.ok()) {
      Fail(front.status());
      return false;
    }
    front_ = *front;
    deltas_.Skip(*front);
    return true;
  }
  void ReadPart() {
    if (!reads_parts_) return;
    const Result<llama::ReadReply> reading = reading_.read(text_, /*is_partial=*/true);
    if (!reading.ok()) {
      // A text that has not the form may have it later. Other trouble would come each time.
      reads_parts_ = reading.status().code() == StatusCode::kInvalidArgument;
      return;
    }
    const std::optional<ReplyDelta> delta = deltas_.Next(*reading, /*is_whole=*/false);
    if (delta && !delta->empty()) writer_->OnDelta(*delta);
  }
  void ReadWhole(const TurnEnd& end) {
    Result<llama::ReadReply> reading = reading_.read(text_, IsCut(end));
    if (reading.status().code() == StatusCode::kInvalidArgument) reading = AsContent();
    if (!reading.ok()) return Fail(reading.status());
    const std::optional<ReplyDelta> delta = deltas_.Next(*reading, /*is_whole=*/true);
    if (!delta)
      return Fail(Status::Internal("the reply's end gives its beginning another meaning"));
    if (!delta->empty()) writer_->OnDelta(*delta);
    is_over_ = true;
    writer_->OnEnd(Counted(end), deltas_.given().calls.size());
  }
  TurnEnd Counted(TurnEnd end) const {
    const std::string& all = deltas_.given().reasoning;
    const std::string reasoning = all.substr(std::min(front_.reasoning.size(), all.size()));
    if (end.num_thinking_tokens || reasoning.empty() || !reading_.count) return end;
    end.num_thinking_tokens = std::min(reading_.count(reasoning), end.num_tokens);
    return end;
  }
  llama::ReadReply AsContent() const {
    llama::ReadReply reading = front_;
    reading.content += text_;
    return reading;
  }
  void Fail(const Status& status) {
    if (std::exchange(is_over_, true)) return;
    if (reading_.cancel) reading_.cancel();
    writer_->OnError(status);
  }

  const ReplyReading reading_;
  const std::shared_ptr<ReplyWriter> writer_;

  std::mutex mutex_;
  Waiting waiting_;         // Guarded by mutex_, as these are.
  bool is_due_ = false;     // Some of it is to be read soon.
  bool is_posted_ = false;  // A thread reads, or will.
  bool has_end_ = false;
  bool is_left_ = false;

  // The reading thread's.
  Utf8Pieces characters_;
  std::string text_;  // All of the reply so far.
  OpenBrackets brackets_;
  bool reads_parts_ = true;
  bool is_front_read_ = false;
  llama::ReadReply front_;
  ReplyDeltas deltas_{reading_.new_call_id};
  bool is_over_ = false;  // The writer has its last call.
};

ReplyReader::ReplyReader(ReplyReading reading, std::shared_ptr<ReplyWriter> writer)
    : writer_(std::move(writer)),
      strand_(reading.read ? std::make_shared<Strand>(std::move(reading), writer_) : nullptr) {}

ReplyReader::~ReplyReader() {
  if (strand_) strand_->Leave();
}

void ReplyReader::OnChances(std::vector<llama::ReplyToken> tokens) {
  strand_ ? strand_->AddChances(std::move(tokens)) : writer_->OnChances(std::move(tokens));
}

void ReplyReader::OnText(std::string_view text) {
  if (strand_) return strand_->AddText(text);
  ReplyDelta delta;
  delta.content = text;
  writer_->OnDelta(delta);
}

void ReplyReader::OnEnd(const TurnEnd& end) {
  strand_ ? strand_->AddEnd(end) : writer_->OnEnd(end, /*num_calls=*/0);
}

void ReplyReader::OnError(const Status& status) {
  strand_ ? strand_->AddError(status) : writer_->OnError(status);
}

}  // namespace attndb::server
