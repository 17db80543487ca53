# Tests of the adapter, on tiny random models made by a script and on SmolLM2.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

set(tiny_models ${CMAKE_CURRENT_BINARY_DIR}/models)
set(make_tiny_model ${CMAKE_SOURCE_DIR}/scripts/make_tiny_model.py)
add_custom_command(
  OUTPUT ${tiny_models}/stamp
  COMMAND ${Python3_EXECUTABLE} ${make_tiny_model} --all ${tiny_models}
  COMMAND ${CMAKE_COMMAND} -E touch ${tiny_models}/stamp
  DEPENDS ${make_tiny_model}
  COMMENT "Making tiny random models")

# English text that every machine with Python has: its documentation.
set(test_text ${CMAKE_CURRENT_BINARY_DIR}/topics.txt)
add_custom_command(
  OUTPUT ${test_text}
  COMMAND ${Python3_EXECUTABLE} -c
    "open(r'${test_text}', 'w').write('  '.join(v for k, v in sorted(__import__('pydoc_data.topics').topics.topics.items())))"
  COMMENT "Writing Python's documentation for tests"
  VERBATIM)
add_custom_target(attndb_llama_test_data DEPENDS ${tiny_models}/stamp ${test_text})

add_library(attndb_llama_testing STATIC engine_test_util.cc gguf_test_util.cc)
target_compile_definitions(attndb_llama_testing PRIVATE
  ATTNDB_TINY_MODELS="${tiny_models}" ATTNDB_TEST_TEXT="${test_text}")
target_link_libraries(attndb_llama_testing PUBLIC attndb_llama_static PRIVATE attndb_warnings)
add_dependencies(attndb_llama_testing attndb_llama_test_data)

# attndb_add_engine_test(NAME TIMEOUT SOURCES...)
function(attndb_add_engine_test name timeout)
  attndb_add_test(${name} SOURCES ${ARGN} LIBS attndb_llama_testing llama
                  LABELS engine TIMEOUT ${timeout})
  # llama.cpp's threads and ours share the cores: run one such test at a time.
  set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
endfunction()

attndb_add_engine_test(llama_parts_test 300
  abort_guard_test.cc attention_graph_test.cc attention_hook_test.cc fingerprint_test.cc
  model_file_test.cc sampler_test.cc text_stream_test.cc)
# These need no model, or one in a child process: no threads of llama.cpp in the program itself.
attndb_add_engine_test(llama_gguf_test 300 child_process_test.cc gguf_check_test.cc gguf_file_test.cc)
attndb_add_engine_test(llama_damage_test 600 damaged_model_test.cc)
attndb_add_engine_test(llama_self_check_test 300 self_check_test.cc)
set_tests_properties(llama_gguf_test llama_damage_test PROPERTIES RUN_SERIAL OFF)
attndb_add_engine_test(llama_probe_test 300 model_probe_test.cc)
attndb_add_engine_test(llama_agreement_test 600 engine_agreement_test.cc)
attndb_add_engine_test(llama_capture_test 300 engine_capture_test.cc)
attndb_add_engine_test(llama_failure_test 300 engine_failure_test.cc)
attndb_add_engine_test(llama_chat_test 300 chat_template_test.cc engine_generate_test.cc)
attndb_add_engine_test(llama_smollm2_test 1800 smollm2_agreement_test.cc)
# On one thread, and the longest of all: beside the others, from the start.
set_tests_properties(llama_smollm2_test PROPERTIES RUN_SERIAL OFF COST 1000)
