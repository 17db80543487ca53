# The catalog (Debian: libsqlite3-dev). Target: SQLite::SQLite3.
find_package(SQLite3 3.40 REQUIRED)
