# An unmodified, installed llama.cpp: .deps/llama unless CMAKE_PREFIX_PATH names another. Targets: llama, ggml.
list(APPEND CMAKE_PREFIX_PATH ${CMAKE_SOURCE_DIR}/.deps/llama)
find_package(llama CONFIG REQUIRED)
