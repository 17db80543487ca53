# Runs the quick start twice on one store: the second process must find all but one token.
file(REMOVE_RECURSE ${FOLDER})
foreach(expected "ran 200 of 200 tokens" "ran 1 of 200 tokens")
  execute_process(COMMAND ${EXAMPLE} ${FOLDER} OUTPUT_VARIABLE output RESULT_VARIABLE result
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT result EQUAL 0 OR NOT output STREQUAL expected)
    message(FATAL_ERROR "quickstart: exit ${result}, printed '${output}', expected '${expected}'")
  endif()
endforeach()
file(REMOVE_RECURSE ${FOLDER})
