#include "server/json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "engines/llama/utf8_bytes.h"

namespace attndb::server {
namespace {

constexpr size_t kMaxTroubleBytes = 200;
constexpr size_t kMaxShownBytes = 40;

// Reads JSON without keeping any of it, and ends where it is wrong or beyond the limits.
class LimitCheck final : public nlohmann::json_sax<Json> {
 public:
  LimitCheck(std::span<const WideField> wide, size_t members) : wide_(wide), members_(members) {}

  const std::string& trouble() const { return trouble_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return Open(); }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      const auto field = std::ranges::find(wide_, name, &WideField::name);
      in_ = field == wide_.end() ? nullptr : &*field;
    }
    const bool is_wide = in_ != nullptr && (depth_ == 2 || (depth_ > 2 && in_->is_deep));
    const size_t most = is_wide ? in_->members : members_;
    if (++num_members_[depth_] <= most) return true;
    return Fail("an object of more than " + std::to_string(most) + " members");
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    // It shows what was read last, which may be all of it.
    return Fail(std::string(llama::FirstUtf8Bytes(e.what(), kMaxTroubleBytes)));
  }

 private:
  bool Open() {
    if (depth_ == kMaxJsonDepth) {
      return Fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    num_members_[++depth_] = 0;
    return true;
  }
  bool Close() {
    --depth_;
    return true;
  }
  bool Fail(std::string trouble) {
    trouble_ = std::move(trouble);
    return false;
  }

  const std::span<const WideField> wide_;
  const size_t members_;           // The limit of other objects.
  const WideField* in_ = nullptr;  // The member of the outermost object that is being read.
  size_t depth_ = 0;
  std::array<size_t, kMaxJsonDepth + 1> num_members_{};  // In the object that is open, by depth.
  std::string trouble_;
};

}  // namespace

Result<Json> ParseJson(std::string_view text, std::span<const WideField> wide) {
  LimitCheck check(wide, kMaxJsonMembers);
  if (!Json::sax_parse(text, &check)) {
    return Status::InvalidArgument("the body is not JSON that can be taken: " + check.trouble());
  }
  return Json::parse(text);
}

Status CheckJson(const std::string& field, std::string_view text, size_t members) {
  LimitCheck check({}, members);
  if (Json::sax_parse(text, &check)) return Status::Ok();
  return Status::InvalidArgument("'" + field +
                                 "' is not JSON that can be taken: " + check.trouble());
}

bool IsJson(std::string_view text) { return Json::accept(text); }

Json ReadOwnJson(std::string_view text) { return Json::parse(text); }

const Json* FindMember(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool AsksForNothing(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         ((value.is_array() || value.is_object()) && value.empty());
}

std::string PlaceOf(const std::string& place, const std::string& member) {
  return place.empty() ? member : place + "." + member;
}

Status ReadFlag(const Json& object, const char* name, bool* value, const std::string& place) {
  const Json* const flag = FindMember(object, name);
  if (flag == nullptr) return Status::Ok();
  if (!flag->is_boolean()) return WrongValue(PlaceOf(place, name), "true or false", *flag);
  *value = flag->get<bool>();
  return Status::Ok();
}

Json WholeNumber(const Json& value) {
  constexpr double kMost = 9007199254740992;  // 2^53: beyond it a double skips whole numbers.
  if (!value.is_number_float()) return value;
  const auto number = value.get<double>();
  if (!(std::abs(number) <= kMost) || std::trunc(number) != number) return value;
  return number < 0 ? Json(static_cast<int64_t>(number)) : Json(static_cast<uint64_t>(number));
}

Status ReadString(const Json& object, const char* name, std::string* value) {
  const Json* const text = FindMember(object, name);
  if (text == nullptr) return Status::Ok();
  if (!text->is_string()) return WrongValue(name, "a text", *text);
  *value = text->get<std::string>();
  return Status::Ok();
}

Status ReadCount(const Json& object, const char* name, uint64_t least, uint64_t most,
                 uint64_t* value, const std::string& place) {
  const Json* const found = FindMember(object, name);
  if (found == nullptr) return Status::Ok();
  const Json count = WholeNumber(*found);
  const bool fits =
      count.is_number_unsigned() && count.get<uint64_t>() >= least && count.get<uint64_t>() <= most;
  if (!fits) {
    return WrongValue(PlaceOf(place, name),
                      "an integer from " + std::to_string(least) + " to " + std::to_string(most),
                      *found);
  }
  *value = count.get<uint64_t>();
  return Status::Ok();
}

bool IsUtf8(const std::string& bytes) {
  using Handler = Json::error_handler_t;
  const Json text = bytes;  // Each byte that is none of a character is replaced by three.
  return text.dump(-1, ' ', false, Handler::replace) == text.dump(-1, ' ', false, Handler::ignore);
}

bool ReadTokenId(const Json& value, TokenId* token) {
  constexpr uint64_t kMost = std::numeric_limits<TokenId>::max();
  const Json id = WholeNumber(value);
  if (!id.is_number_unsigned() || id.get<uint64_t>() > kMost) return false;
  *token = static_cast<TokenId>(id.get<uint64_t>());
  return true;
}

Status WrongValue(const std::string& field, const std::string& expected, const Json& found) {
  return Status::InvalidArgument("'" + field + "' is " + Shown(found) + ", expected " + expected);
}

std::string Shown(const Json& found) {
  std::string text = ToText(found);
  if (text.size() <= kMaxShownBytes) return text;
  return std::string(llama::FirstUtf8Bytes(text, kMaxShownBytes)) + "...";
}

std::string ToText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace attndb::server
