# Markdown in the server's page: a script, embedded by server/page/embed.cmake.
attndb_find(Marked)
