#include "engines/llama/abort_guard.h"

#include <ggml.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Asserts in ggml's C that the view lies in the tensor.
void ViewBeyondTheEnd() {
  ggml_context* const context = ggml_init({.mem_size = 1 << 16, .mem_buffer = nullptr});
  ggml_tensor* const tensor = ggml_new_tensor_1d(context, GGML_TYPE_F32, 8);
  ggml_view_1d(context, tensor, 16, 0);
}

TEST(AbortGuardTest, AnAssertionInGgmlsCIsAnErrorWithItsWords) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Guarded("this",
                        [] {
                          ViewBeyondTheEnd();
                          return Status::Ok();
                        }),
                FailsWith(StatusCode::kInvalidArgument,
                          AllOf(HasSubstr("this: llama.cpp gave up"), HasSubstr("GGML_ASSERT"))));
  }
}

TEST(AbortGuardTest, OtherErrorsKeepTheirKind) {
  ATTNDB_EXPECT_OK(Guarded("this", [] { return Status::Ok(); }));
  EXPECT_THAT(Guarded("this", [] { return Status::Unsupported("that"); }),
              FailsWith(StatusCode::kUnsupported, HasSubstr("that")));
  EXPECT_THAT(Guarded("this", []() -> Status { throw std::bad_alloc(); }),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("no memory")));
}

TEST(AbortGuardDeathTest, WithoutAGuardTheProcessEndsAndSaysWhy) {
  ATTNDB_EXPECT_OK(Guarded("this", [] { return Status::Ok(); }));
  EXPECT_DEATH(ViewBeyondTheEnd(), "GGML_ASSERT");
}

}  // namespace
}  // namespace attndb::llama
