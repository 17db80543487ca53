# SHA-256 and HMAC. Target: OpenSSL::Crypto.
attndb_find(libssl-dev OpenSSL 3.0 COMPONENTS Crypto)
