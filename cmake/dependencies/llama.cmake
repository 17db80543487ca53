# An unmodified, installed llama.cpp: .deps/llama unless CMAKE_PREFIX_PATH names another. Targets: llama, ggml.
list(APPEND CMAKE_PREFIX_PATH ${CMAKE_SOURCE_DIR}/.deps/llama)
find_package(llama CONFIG QUIET)
if(ATTNDB_BUILD_LLAMA STREQUAL "AUTO")
  set(ATTNDB_BUILD_LLAMA ${llama_FOUND})
  if(NOT llama_FOUND)
    message(STATUS "llama.cpp adapter: no; no installed llama.cpp in ${CMAKE_SOURCE_DIR}/.deps/llama "
                   "(scripts/setup.sh builds it) or in CMAKE_PREFIX_PATH")
  endif()
elseif(NOT llama_FOUND)
  attndb_missing("" "llama.cpp, installed in CMAKE_PREFIX_PATH: scripts/setup.sh builds one into \
.deps/llama; or do without, by -DATTNDB_BUILD_LLAMA=OFF")
endif()
