# SHA-256 and HMAC. Target: OpenSSL::Crypto.
attndb_find(OpenSSL 3.0 COMPONENTS Crypto)
