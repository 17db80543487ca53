# HTTP for the server: Beast and Asio, headers alone. Target: Boost::headers.
attndb_find(Boost 1.81)
