# The catalog. Target: SQLite::SQLite3.
attndb_find(libsqlite3-dev SQLite3 3.40)
