# Unit tests (Debian: libgtest-dev, libgmock-dev). Targets: GTest::gtest, GTest::gmock.
find_package(GTest 1.12 REQUIRED)
include(GoogleTest)
