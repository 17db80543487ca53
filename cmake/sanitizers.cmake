# Sanitizers and coverage apply to every target of the build, so that all code sees one runtime.
#
# AddressSanitizer is the exception: it does not instrument the sources of tests. Their object code is
# then that of the release build, and ccache has it. Only the library is compiled again.
#   seen:     every access of the library, also to heap blocks that a test hands to it
#   not seen: accesses of a test itself, such as to a view whose owner is gone; a test's arrays on the
#             stack; checks (UBSan, ATTNDB_DCHECK) of inline functions that only tests call
# ThreadSanitizer must see every access, so it instruments everything.
function(attndb_is_test target)
  set_target_properties(${target} PROPERTIES ATTNDB_IS_TEST ON)
endfunction()

# Links the whole library before the test's objects. If both contain a function, such as a member of
# std::vector, the linker keeps the first copy: the library's, which is instrumented.
function(attndb_instrumented_first target)
  if(ATTNDB_SANITIZE STREQUAL "address")
    add_dependencies(${target} attndb_static)
    target_link_options(${target} BEFORE PRIVATE
      LINKER:--whole-archive $<TARGET_FILE:attndb_static> LINKER:--no-whole-archive)
  endif()
endfunction()

# -O1 -g1 is enough for readable reports; -O2 -g takes three times as long to compile. Checks of
# ATTNDB_DCHECK are on. GCC warns wrongly of uninitialized values in instrumented code. Four checks of
# UBSan are off, because they double the time to compile. ASan finds the same faults, except
# misaligned accesses.
if(ATTNDB_SANITIZE)
  set(flags -O1 -g1 -UNDEBUG -fno-omit-frame-pointer
            $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
if(ATTNDB_SANITIZE STREQUAL "address")
  list(APPEND flags -fsanitize=address,undefined -fno-sanitize-recover=all
                    -fno-sanitize=null,alignment,object-size,vptr)
  add_compile_options("$<$<NOT:$<BOOL:$<TARGET_PROPERTY:ATTNDB_IS_TEST>>>:${flags}>")
  add_link_options(-fsanitize=address,undefined)
elseif(ATTNDB_SANITIZE STREQUAL "thread")
  # ThreadSanitizer does not know fences. Asio's mutexes order all that its fences do.
  add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  add_compile_options(${flags} -fsanitize=thread)
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
