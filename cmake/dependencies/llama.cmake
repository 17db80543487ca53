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

# llama.cpp's `common`, which renders chat templates. llama.cpp does not install it;
# engines/llama/chat/llama_common builds it into the same folder. Without it, only the templates that
# libllama knows can be applied.
if(llama_FOUND)
  find_library(LLAMA_COMMON_LIBRARY llama-common HINTS ${LLAMA_LIB_DIR} NO_DEFAULT_PATH)
  find_path(LLAMA_COMMON_INCLUDE_DIR llama-common/chat.h HINTS ${LLAMA_INCLUDE_DIR} NO_DEFAULT_PATH)
  if(NOT LLAMA_COMMON_LIBRARY)
    message(STATUS "chat templates in Jinja: no; no libllama-common.a in ${LLAMA_LIB_DIR}")
  endif()
endif()

# One that its compiler got wrong ends every process that runs a model, on a CPU with AMX. An error,
# because a pip that succeeds shows no warning.
option(ATTNDB_CHECK_AMX "Refuse a llama.cpp whose AMX code is wrong; OFF: only warn" ON)
if(NOT llama_FOUND OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  return()
endif()
# Those that are loaded at run time, one for each kind of CPU, are installed among the programs.
set(cpu_libraries "")
foreach(folder IN LISTS LLAMA_LIB_DIR GGML_LIB_DIR LLAMA_BIN_DIR GGML_BACKEND_DIR)
  file(GLOB found ${folder}/libggml-cpu*.so* ${folder}/libggml-cpu*.a ${folder}/libggml.so*
                  ${folder}/libggml.a)
  foreach(library IN LISTS found)
    file(REAL_PATH ${library} library)
    list(APPEND cpu_libraries ${library})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES cpu_libraries)
set(python python3)
if(Python_EXECUTABLE)  # That of pip, which may be the only one.
  set(python ${Python_EXECUTABLE})
endif()
execute_process(COMMAND ${python} -B ${CMAKE_SOURCE_DIR}/scripts/amx.py ${cpu_libraries}
                RESULT_VARIABLE status OUTPUT_VARIABLE faults ERROR_VARIABLE trouble)
if(status EQUAL 0)
  return()
endif()
if(faults)
  string(REGEX REPLACE "\n$" "" faults "${faults}")
  string(REPLACE "\n" "\n    " faults "${faults}")
  set(faults "its compiler got its AMX code wrong, which ends the process in its first forward on a CPU \
with AMX:\n    ${faults}")
else()
  string(REGEX MATCH "[^\n]*\n?$" trouble "${status}\n${trouble}")
  string(STRIP "${trouble}" trouble)
  set(faults "its AMX code can't be looked at by scripts/amx.py: ${trouble}")
endif()
set(faults "the llama.cpp in ${LLAMA_LIB_DIR}: ${faults}\n\
    Build it with the flags -mno-amx-tile -mno-amx-int8 -mno-amx-bf16, or with GCC 11.5, 12.4, 13.3, 14\n\
    or later; or let scripts/setup.sh build one into .deps/llama; or do without, by\n\
    -DATTNDB_BUILD_LLAMA=OFF. For CPUs without AMX only, it can be used as it is:\n\
    -DATTNDB_CHECK_AMX=OFF (pip: CMAKE_ARGS=-DATTNDB_CHECK_AMX=OFF pip install .)")
if(ATTNDB_CHECK_AMX)
  attndb_missing("" "${faults}")
else()
  message(WARNING "${faults}")
endif()
