# Unit tests. Targets: GTest::gtest, GTest::gmock.
attndb_find("libgtest-dev libgmock-dev" GTest 1.12)
include(GoogleTest)
