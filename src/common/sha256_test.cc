// Goal:   SHA-256 and HMAC are the standards'; random bytes differ.
// Method: vectors of FIPS 180-4 and RFC 4231; messages in pieces.
#include "common/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/coding.h"
#include "common/hex.h"
#include "testing/matchers.h"

namespace attndb {
namespace {

std::string HashOf(std::string_view text) { return HexEncode(Sha256::Of(BytesOf(text))); }

TEST(Sha256, GivesTheStandardsVectors) {
  EXPECT_EQ(HashOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HashOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HashOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HashOf(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheHashOfTheWholeAndFinishStartsOver) {
  Sha256 hash;
  hash.Update(BytesOf(std::string_view("a")));
  hash.Update({});
  hash.Update(BytesOf(std::string_view("bc")));
  EXPECT_EQ(HexEncode(hash.Finish()), HashOf("abc"));
  EXPECT_EQ(HexEncode(hash.Finish()), HashOf(""));
}

TEST(HmacSha256, GivesTheVectorsOfRfc4231) {
  const std::vector<std::byte> key1(20, std::byte{0x0b});
  EXPECT_EQ(HexEncode(HmacSha256(key1, BytesOf(std::string_view("Hi There")))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(HexEncode(HmacSha256(BytesOf(std::string_view("Jefe")),
                                 BytesOf(std::string_view("what do ya want for nothing?")))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::vector<std::byte> long_key(131, std::byte{0xaa});
  EXPECT_EQ(
      HexEncode(HmacSha256(
          long_key,
          BytesOf(std::string_view("Test Using Larger Than Block-Size Key - Hash Key First")))),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacSha256, AnEmptyKeyIsAKeyOfItsOwn) {
  const std::vector<std::byte> key(1, std::byte{1});
  const Sha256Digest keyed = HmacSha256(key, {});
  EXPECT_EQ(HexEncode(HmacSha256({}, {})),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
  EXPECT_NE(HmacSha256({}, {}), keyed);
}

TEST(ConstantTimeEqual, ComparesBytesAndLength) {
  const std::string_view a = "secret", b = "secreT", c = "secre";
  EXPECT_TRUE(ConstantTimeEqual(BytesOf(a), BytesOf(a)));
  EXPECT_FALSE(ConstantTimeEqual(BytesOf(a), BytesOf(b)));
  EXPECT_FALSE(ConstantTimeEqual(BytesOf(a), BytesOf(c)));
  EXPECT_TRUE(ConstantTimeEqual({}, {}));
}

TEST(RandomBytes, DifferFromCallToCall) {
  std::array<std::byte, 32> a = {}, b = {};
  ATTNDB_ASSERT_OK(RandomBytes(a));
  ATTNDB_ASSERT_OK(RandomBytes(b));
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace attndb
