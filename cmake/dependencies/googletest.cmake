# Unit tests. Targets: GTest::gtest, GTest::gmock.
attndb_find(GTest 1.12)
include(GoogleTest)
