# SHA-256 and HMAC (Debian: libssl-dev). Target: OpenSSL::Crypto.
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)
