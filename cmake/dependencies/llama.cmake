# An unmodified, installed llama.cpp: .deps/llama unless CMAKE_PREFIX_PATH names another. Targets: llama, ggml.
list(APPEND CMAKE_PREFIX_PATH ${CMAKE_SOURCE_DIR}/.deps/llama)
if(ATTNDB_BUILD_LLAMA STREQUAL "AUTO")
  find_package(llama CONFIG QUIET)
  set(ATTNDB_BUILD_LLAMA ${llama_FOUND})
  message(STATUS "llama.cpp adapter: ${ATTNDB_BUILD_LLAMA}")
else()
  find_package(llama CONFIG REQUIRED)
endif()
