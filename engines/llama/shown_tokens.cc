#include "engines/llama/shown_tokens.h"

#include <iterator>
#include <utility>

namespace attndb::llama {

std::vector<ReplyToken> ShownTokens::Show(size_t num_bytes) {
  num_shown_ += num_bytes;
  std::vector<ReplyToken> shown;
  while (!tokens_.empty() && tokens_.front().text.size() <= num_shown_) {
    num_shown_ -= tokens_.front().text.size();
    shown.push_back(std::move(tokens_.front()));
    tokens_.pop_front();
  }
  return shown;
}

std::vector<ReplyToken> ShownTokens::Finish(bool stopped) {
  std::vector<ReplyToken> left = Show(0);
  if (!stopped) {
    left.insert(left.end(), std::make_move_iterator(tokens_.begin()),
                std::make_move_iterator(tokens_.end()));
  } else if (!tokens_.empty() && num_shown_ > 0) {
    tokens_.front().text.resize(num_shown_);
    left.push_back(std::move(tokens_.front()));
  }
  tokens_.clear();
  num_shown_ = 0;
  return left;
}

}  // namespace attndb::llama
