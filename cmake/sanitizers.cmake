# Sanitizers and coverage apply to every target of the build, so that all code sees one runtime.
#
# Under AddressSanitizer the sources of tests are not instrumented. Their object code is then that of the
# release build, and ccache has it: only the library is compiled again. Heap blocks that a test hands to
# the library are watched all the same; a test's own arrays on the stack are not. ThreadSanitizer must
# see every access, so there all is instrumented.
function(attndb_is_test target)
  set_target_properties(${target} PROPERTIES ATTNDB_IS_TEST ON)
endfunction()

# Links the whole library before the test's objects. Of a function that both have, std::vector's
# say, the linker takes the first: the one that is instrumented.
function(attndb_instrumented_first target)
  if(ATTNDB_SANITIZE STREQUAL "address")
    add_dependencies(${target} attndb_static)
    target_link_options(${target} BEFORE PRIVATE
      LINKER:--whole-archive $<TARGET_FILE:attndb_static> LINKER:--no-whole-archive)
  endif()
endfunction()

# -O1 -g1 is enough for readable reports; -O2 -g takes three times as long to compile. Checks of
# ATTNDB_DCHECK are on. GCC warns wrongly of uninitialized values in instrumented code. The four
# checks that are off double the time to compile; but for alignment ASan sees what they see.
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
