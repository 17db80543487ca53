#include "engines/llama/run_joiner.h"

#include <algorithm>
#include <utility>

#include "engines/llama/text_cuts.h"
#include "engines/llama/utf8_bytes.h"

namespace attndb::llama {
namespace {

// Bytes at the end of the stored run that are searched for a cut first, and by how much more each
// time after that.
constexpr size_t kTailBytes = 1024;
constexpr size_t kTailGrowth = 16;
constexpr size_t kLookAheadBytes = 1024;  // Bytes of the new text that a cut is judged by.

bool BeginsWith(std::span<const TokenId> ids, std::span<const TokenId> first) {
  return ids.size() >= first.size() && std::ranges::equal(ids.first(first.size()), first);
}

}  // namespace

Status LimitWatch::AddRun(size_t num_bytes, size_t num_tokens) {
  num_bytes_ += num_bytes;
  num_unseen_ += num_bytes;
  if (num_unseen_ < limits_.piece_bytes) return Status::Ok();
  num_unseen_ = 0;
  has_enough_ = num_tokens > limits_.max_tokens;
  if (has_enough_ || !limits_.progress || limits_.progress(num_bytes_, num_bytes_)) {
    return Status::Ok();
  }
  return Status::Cancelled("stopped after " + std::to_string(num_bytes_) + " bytes of the text");
}

std::vector<size_t> BeginsOf(const Tokenizer& tokenizer, std::span<const TokenId> ids,
                             std::string_view text) {
  std::vector<size_t> begins = {0};
  size_t end = 0;
  for (const TokenId id : ids) {
    end += tokenizer.Piece(id).size();
    begins.push_back(end);
  }
  if (end > text.size() && tokenizer.adds_space()) {
    for (size_t& begin : begins) begin -= std::min<size_t>(begin, 1);
  }
  return begins;
}

RunJoiner::RunJoiner(const Tokenizer& tokenizer, std::span<const TokenId> before,
                     const JoinOptions& options)
    : tokenizer_(tokenizer), options_(options), num_before_(before.size()), watch_(options.limits) {
  joined_.tokens.assign(before.begin(), before.end());
  if (before.empty()) joined_.tokens = tokenizer.BeginOfText();
  joined_.num_kept = num_before_;
}

Status RunJoiner::Add(const PromptItem& item) {
  if (item.control) {
    ATTNDB_RETURN_IF_ERROR(EndRun());
    joined_.tokens.push_back(*item.control);
    return Status::Ok();
  }
  if (item.is_content) {
    contents_.push_back({joined_.contents.size(), run_.size(), run_.size() + item.text.size()});
    joined_.contents.emplace_back();
  }
  run_ += item.text;
  return Status::Ok();
}

Result<JoinedText> RunJoiner::Finish(size_t num_contents) {
  ATTNDB_RETURN_IF_ERROR(EndRun());
  joined_.contents.resize(num_contents);
  return std::move(joined_);
}

Result<std::vector<TokenId>> RunJoiner::IdsOf(std::string_view text, size_t num_stored) const {
  TokenizeLimits limits = options_.limits;
  limits.max_tokens += std::min<uint64_t>(num_stored, UINT64_MAX - limits.max_tokens);
  return tokenizer_.Tokenize(text, /*add_special=*/false, /*parse_special=*/false, limits);
}

Result<std::vector<TokenId>> RunJoiner::IdsBehindText(const std::string& text) const {
  for (const std::string_view anchor : {"\n", ".", "x"}) {
    if (!tokenizer_.adds_space()) break;
    const std::string both = std::string(anchor) + text;
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, IdsOf(both));
    const std::vector<size_t> begins = BeginsOf(tokenizer_, ids, both);
    const auto at = std::lower_bound(begins.begin(), begins.end(), anchor.size());
    if (begins.back() != both.size() || at == begins.end() || *at != anchor.size()) continue;
    return std::vector<TokenId>(ids.begin() + (at - begins.begin()), ids.end());
  }
  return IdsOf(text);
}

Status RunJoiner::EndRun() {
  const size_t num_tokens = joined_.tokens.size();
  const bool has_text = !run_.empty() || !stored_behind_.empty();
  const bool goes_on = num_tokens > 0 && num_tokens == num_before_ && has_text &&
                       !tokenizer_.IsBetweenTexts(joined_.tokens, num_tokens - 1);
  if (goes_on) {
    ATTNDB_RETURN_IF_ERROR(GoOn());
  } else if (!run_.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, IdsOf(run_));
    AppendIds(ids, run_, /*num_old_bytes=*/0);
  } else {
    NoteContents({0}, joined_.tokens.size(), 0);
  }
  const size_t num_bytes = run_.size();
  run_.clear();
  contents_.clear();
  stored_behind_.clear();
  return watch_.AddRun(num_bytes,
                       joined_.tokens.size() - std::min(num_before_, joined_.tokens.size()));
}

void RunJoiner::AppendIds(std::span<const TokenId> ids, std::string_view text,
                          size_t num_old_bytes) {
  const size_t first = joined_.tokens.size();
  joined_.tokens.insert(joined_.tokens.end(), ids.begin(), ids.end());
  if (!contents_.empty()) NoteContents(BeginsOf(tokenizer_, ids, text), first, num_old_bytes);
}

void RunJoiner::NoteContents(const std::vector<size_t>& begins, size_t first,
                             size_t num_old_bytes) {
  const auto ends = std::span(begins).subspan(1);
  const auto token_at = [&](size_t byte) {
    if (byte >= run_.size()) return first + ends.size();
    const auto at = std::upper_bound(ends.begin(), ends.end(), byte + num_old_bytes);
    return first + static_cast<size_t>(at - ends.begin());
  };
  for (const Content& content : contents_) {
    joined_.contents[content.idx] = {token_at(content.begin), token_at(content.end)};
  }
}

Status RunJoiner::GoOn() {
  for (size_t num_bytes = kTailBytes;; num_bytes *= kTailGrowth) {
    const Tail tail = TailOf(num_bytes);
    const std::optional<size_t> from = CutOf(tail);
    if (!from && !tail.is_whole) continue;
    return GoOnFrom(tail, from.value_or(0));
  }
}

RunJoiner::Tail RunJoiner::TailOf(size_t least_bytes) const {
  const std::vector<TokenId>& tokens = joined_.tokens;
  Tail tail;
  tail.first = tokens.size();
  size_t num_bytes = 0;
  std::vector<std::string> pieces;  // The last one first.
  const auto may_begin = [&] {
    return num_bytes >= least_bytes && !pieces.back().empty() &&
           !ContinuesUtf8Char(pieces.back()[0]);
  };
  while (tail.first > 0 && !tokenizer_.IsBetweenTexts(tokens, tail.first - 1)) {
    if (!pieces.empty() && may_begin()) break;
    pieces.push_back(tokenizer_.Piece(tokens[--tail.first]));
    num_bytes += pieces.back().size();
  }
  tail.is_whole = tail.first == 0 || tokenizer_.IsBetweenTexts(tokens, tail.first - 1);
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    tail.begins.push_back(tail.text.size());
    tail.text += *piece;
  }
  if (tail.is_whole && tokenizer_.adds_space() && tail.text.starts_with(' ')) {
    tail.text.erase(0, 1);
    for (size_t& begin : tail.begins) begin -= std::min<size_t>(begin, 1);
  }
  return tail;
}

std::optional<size_t> RunJoiner::CutOf(const Tail& tail) const {
  std::vector<size_t> places;
  for (const size_t begin : tail.begins) {
    // A piece leaves its first space to the tokenizer, and must have more than that.
    if (begin + (tokenizer_.adds_space() ? 1 : 0) < tail.text.size()) places.push_back(begin);
  }
  const std::string text = tail.text + run_.substr(0, kLookAheadBytes);
  const std::optional<size_t> at = tokenizer_.cuts().Last(text, places);
  if (!at) return std::nullopt;
  return std::lower_bound(tail.begins.begin(), tail.begins.end(), *at) - tail.begins.begin();
}

Result<bool> RunJoiner::IsOwn(std::span<const TokenId> stored, const std::string& text) const {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, IdsOf(text));
  if (std::ranges::equal(ids, stored)) return true;
  if (text.empty() || stored_behind_.empty()) return false;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> more,
                          IdsOf(text + stored_behind_, stored.size()));
  return BeginsWith(more, stored);
}

Status RunJoiner::GoOnFrom(const Tail& tail, size_t from) {
  const size_t first = tail.first + from;
  const bool is_cut = first > tail.first || !tail.is_whole;
  const size_t begin = tail.begins[from] + (is_cut && tokenizer_.adds_space() ? 1 : 0);
  const std::string old_text = tail.text.substr(begin);
  const std::string text = old_text + run_;
  const auto stored = std::span<const TokenId>(joined_.tokens).subspan(first);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, IdsOf(text, stored.size()));
  bool takes_ids = BeginsWith(ids, stored);
  if (!takes_ids && !options_.keeps_before) {
    ATTNDB_ASSIGN_OR_RETURN(takes_ids, IsOwn(stored, old_text));
  }
  if (takes_ids) {
    const auto differ = std::ranges::mismatch(ids, stored);
    joined_.num_kept = first + static_cast<size_t>(differ.in1 - ids.begin());
    joined_.tokens.resize(first);
    AppendIds(ids, text, old_text.size());
    return Status::Ok();
  }
  if (run_.empty()) return Status::Ok();
  const std::vector<size_t> begins = BeginsOf(tokenizer_, ids, text);
  const auto at = std::lower_bound(begins.begin(), begins.end() - 1, old_text.size());
  if (begins.back() == text.size() && at != begins.end() - 1 && *at == old_text.size()) {
    AppendIds(std::span(ids).subspan(static_cast<size_t>(at - begins.begin())), run_, 0);
    return Status::Ok();
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> behind, IdsBehindText(run_));
  AppendIds(behind, run_, 0);
  return Status::Ok();
}

}  // namespace attndb::llama
