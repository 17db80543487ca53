# Sanitizers and coverage apply to every target of the build, so that all code sees one runtime.
if(ATTNDB_SANITIZE)
  # Enough for readable reports; -O2 -g takes three times as long to compile. GCC warns wrongly of
  # uninitialized values in instrumented code.
  add_compile_options(-O1 -g1 -fno-omit-frame-pointer $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
if(ATTNDB_SANITIZE STREQUAL "address")
  # The four that are off double the time to compile; but for alignment ASan sees what they see.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
                      -fno-sanitize=null,alignment,object-size,vptr)
  add_link_options(-fsanitize=address,undefined)
elseif(ATTNDB_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(NOT ATTNDB_SANITIZE STREQUAL "")
  message(FATAL_ERROR "ATTNDB_SANITIZE is '${ATTNDB_SANITIZE}'; expected address, thread or nothing")
endif()
if(ATTNDB_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(ATTNDB_COVERAGE)
  add_compile_options(--coverage -O0)
  add_link_options(--coverage)
endif()
