# SHA-256 and HMAC; TLS for the server. Targets: OpenSSL::Crypto, OpenSSL::SSL.
attndb_find(OpenSSL 3.0 COMPONENTS Crypto SSL)
