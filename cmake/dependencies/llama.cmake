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

# One that its compiler got wrong ends every process that uses it: better said here than found there.
set(cpu_library ${LLAMA_LIB_DIR}/libggml-cpu.so)
if(llama_FOUND AND EXISTS ${cpu_library})
  execute_process(COMMAND python3 -B ${CMAKE_SOURCE_DIR}/scripts/amx.py ${cpu_library}
                  RESULT_VARIABLE status OUTPUT_VARIABLE faults ERROR_QUIET)
  if(status EQUAL 1 AND faults)
    message(WARNING "This llama.cpp would end in its first forward on a CPU with AMX:\n${faults}Build it "
                    "with -mno-amx-tile -mno-amx-int8 -mno-amx-bf16, or with GCC 11.5, 12.4, 13.3, 14 or "
                    "later.")
  endif()
endif()
