# The catalog. Target: SQLite::SQLite3.
attndb_find(SQLite3 3.40)
