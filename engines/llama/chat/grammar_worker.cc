#include "engines/llama/chat/grammar_worker.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <numeric>
#include <regex>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/llama/chat/chat_limits.h"
#include "engines/llama/chat/chat_wire.h"
#include "engines/llama/chat/grammar_complaint.h"
#include "engines/llama/chat/program_limits.h"
#include "engines/llama/chat/token_mask.h"
#include "engines/llama/chat/token_piece.h"

namespace attndb::llama {
namespace {

constexpr char kRoot[] = "root";
constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<llama_token> TokensOf(const ChatFields& fields, const std::string& name) {
  const std::string bytes = FieldOf(fields, name);
  std::vector<llama_token> tokens(bytes.size() / sizeof(llama_token));
  std::memcpy(tokens.data(), bytes.data(), tokens.size() * sizeof(llama_token));
  return tokens;
}

// The tokens of a text in which control tokens are looked for, as llama-server makes them.
std::vector<llama_token> Tokenized(const llama_vocab* vocab, const std::string& text) {
  std::vector<llama_token> tokens(text.size() + 2);
  const auto tokenize = [&] {
    return llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                          static_cast<int32_t>(tokens.size()), /*add_special=*/false,
                          /*parse_special=*/true);
  };
  const int32_t count = tokenize();
  if (count < 0) throw std::runtime_error("llama.cpp can't tokenize the text");
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

// The pattern that matches a word alone.
std::string Escaped(std::string_view word) {
  constexpr std::string_view kSpecial = R"(.^$|()*+?[]{}\/)";
  std::string pattern;
  for (const char c : word) {
    if (kSpecial.find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// A word that is one added token: the model gives it as this token alone.
std::optional<llama_token> AddedToken(const llama_vocab* vocab, const std::string& word) {
  const std::vector<llama_token> tokens = Tokenized(vocab, word);
  if (tokens.size() != 1) return std::nullopt;
  constexpr int kAdded = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED;
  if ((llama_vocab_get_attr(vocab, tokens[0]) & kAdded) == 0) return std::nullopt;
  return tokens[0];
}

struct Triggers {
  Triggers(const llama_vocab* vocab, const std::vector<GrammarTrigger>& given) {
    for (const auto& [is_pattern, text] : given) {
      const auto token = is_pattern ? std::nullopt : AddedToken(vocab, text);
      if (token) {
        tokens.push_back(*token);
      } else {
        patterns.push_back(is_pattern ? text : Escaped(text));
      }
    }
  }

  std::vector<std::string> patterns;
  std::vector<llama_token> tokens;
};

// Catches what llama.cpp prints about a grammar.
class Printed {
 public:
  Printed() : file_(memfd_create("attndb grammar", MFD_CLOEXEC)) { dup2(file_, STDERR_FILENO); }
  ~Printed() { close(file_); }
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;

  std::string Text() const {
    const off_t size = lseek(file_, 0, SEEK_END);
    if (size <= 0) return "";
    std::string text(static_cast<size_t>(size), '\0');
    const ssize_t length = pread(file_, text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(0, length)));
    return text;
  }

 private:
  const int file_;
};

// Null: llama.cpp has printed why not.
SamplerHandle Compiled(const llama_vocab* vocab, const std::string& text,
                       const ChatFields& request) {
  if (!request.contains("lazy")) {
    return SamplerHandle(llama_sampler_init_grammar(vocab, text.c_str(), kRoot));
  }
  const Triggers triggers(vocab, TriggersOf(request));
  std::vector<const char*> patterns;
  for (const std::string& pattern : triggers.patterns) patterns.push_back(pattern.c_str());
  return SamplerHandle(llama_sampler_init_grammar_lazy_patterns(
      vocab, text.c_str(), kRoot, patterns.data(), patterns.size(), triggers.tokens.data(),
      triggers.tokens.size()));
}

// Its own message would have the text of the reply.
void AcceptOrThrow(llama_token token, llama_sampler* grammar) {
  try {
    llama_sampler_accept(grammar, token);
  } catch (const std::exception&) {
    // The check allows all tokens up to a trigger.
    throw std::runtime_error("the grammar does not take the text that triggers it");
  }
}

}  // namespace

ChatFields GrammarWorker::Answer(const ChatFields& request) {
  try {
    return grammar_ == nullptr ? Begin(request) : Check(request);
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
}

ChatFields GrammarWorker::Begin(const ChatFields& request) {
  if (FieldOf(request, "vocabulary") != digest_) {
    return {{"failed", "the model's file has another vocabulary than when it was opened"}};
  }
  Compile(request);
  is_lazy_ = request.contains("lazy");
  // A lazy grammar begins with its trigger, which comes later.
  if (!is_lazy_) AcceptBefore(FieldOf(request, "before"));
  return {};
}

void GrammarWorker::Compile(const ChatFields& request) {
  const std::string text = FieldOf(request, "grammar");
  has_token_rules_ = HasTokenRules(text);
  const Printed printed;
  try {
    grammar_ = Compiled(vocab_, text, request);
  } catch (const std::regex_error& error) {
    throw std::invalid_argument(std::string("a pattern that triggers the grammar: ") +
                                error.what());
  }
  if (grammar_ == nullptr) {
    throw std::invalid_argument("the grammar can't be compiled: " +
                                GrammarComplaint(printed.Text(), text));
  }
}

void GrammarWorker::AcceptBefore(const std::string& text) {
  if (text.empty()) return;
  const std::vector<llama_token> tokens = Tokenized(vocab_, text);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string piece = PieceOf(vocab_, tokens[i]);
    const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    // A space that the tokenizer sets before a text.
    if (i == 0 && !piece.empty() && is_space(piece[0]) && !is_space(text[0])) continue;
    if (!Allows(tokens[i])) {
      throw std::invalid_argument("the grammar does not take the text in front of the reply");
    }
    llama_sampler_accept(grammar_.get(), tokens[i]);
  }
}

ChatFields GrammarWorker::Check(const ChatFields& request) {
  if (!error_.empty()) return {{"error", error_}};
  const std::vector<llama_token> checked = TokensOf(request, "check");
  const llama_token token = checked.size() == 1 ? checked[0] : -1;
  if (token < 0 || token >= llama_vocab_n_tokens(vocab_)) {
    return {{"failed", "a token that is not in the vocabulary"}};
  }
  for (const llama_token accepted : TokensOf(request, "accept")) Accept(accepted);
  allowed_.reset();
  accepted_.reset();
  mask_.clear();
  if (Allows(token)) {
    allowed_ = token;
    ChatFields answer = {{"allowed", ""}};
    if (Waits()) answer["waits"] = "";
    return answer;
  }
  mask_ = Mask();
  return {{"mask", mask_}};
}

// llama.cpp ends its process for a token that does not fit.
void GrammarWorker::Accept(llama_token token) {
  if (std::exchange(accepted_, std::nullopt) == token) return;
  const std::string mask = std::exchange(mask_, "");
  if (mask.empty() ? !Allows(token) : !IsInMask(token, mask)) {
    throw std::runtime_error("the grammar does not take a token that came unasked");
  }
  AcceptOrThrow(token, grammar_.get());
}

void GrammarWorker::GoOn() {
  if (!allowed_) return;
  try {
    AcceptOrThrow(*allowed_, grammar_.get());
    accepted_ = allowed_;
  } catch (const std::exception& error) {
    error_ = error.what();
  }
}

bool GrammarWorker::Allows(llama_token token) const { return !AllowedOf({&token, 1}).empty(); }

bool GrammarWorker::Waits() const {
  return is_lazy_ && (!tree_->unfit() || Allows(*tree_->unfit()));
}

// Where a text does not fit, the tokens that begin with it are not tried: of SmolLM2's 49,152
// tokens a thousand are. Where most tokens fit, as in a string, all of them are tried at once,
// which is then faster.
std::string GrammarWorker::Mask() const {
  const auto num_tokens = static_cast<size_t>(llama_vocab_n_tokens(vocab_));
  std::string mask = EmptyMask(num_tokens);
  std::vector<llama_token> tried(tree_->roots().begin(), tree_->roots().end());
  bool tries_all = has_token_rules_;
  while (!tries_all && !tried.empty()) {
    const std::vector<llama_token> allowed = AllowedOf(tried);
    tried.clear();
    for (const llama_token token : allowed) {
      AddToMask(token, &mask);
      const std::span<const llama_token> longer = tree_->children(token);
      tried.insert(tried.end(), longer.begin(), longer.end());
    }
    tries_all = tried.size() > num_tokens / 8;
  }
  if (!tries_all) return mask;
  tried.resize(num_tokens);
  std::iota(tried.begin(), tried.end(), 0);
  for (const llama_token token : AllowedOf(tried)) AddToMask(token, &mask);
  return mask;
}

std::vector<llama_token> GrammarWorker::AllowedOf(std::span<const llama_token> tokens) const {
  std::vector<llama_token_data> candidates;
  candidates.reserve(tokens.size());
  for (const llama_token token : tokens) candidates.push_back({token, 1.0f, 0.0f});
  llama_token_data_array array = {candidates.data(), candidates.size(), -1, false};
  llama_sampler_apply(grammar_.get(), &array);
  std::vector<llama_token> allowed;
  for (const llama_token_data& candidate : candidates) {
    if (candidate.logit != kNever) allowed.push_back(candidate.id);
  }
  return allowed;
}

void RunGrammarWorker(int socket, GrammarWorker worker) {
  while (true) {
    const Result<ChatFields> request = ReadFrame(socket);
    if (!request.ok()) return;
    SetCpuLimit(kChatCpuSeconds);
    const ChatFields answer = worker.Answer(*request);
    SetCpuLimit(0);
    if (!WriteFrame(socket, answer).ok()) return;
    SetCpuLimit(kChatCpuSeconds);
    worker.GoOn();
    SetCpuLimit(0);
  }
}

}  // namespace attndb::llama
