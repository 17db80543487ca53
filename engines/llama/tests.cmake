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

# Models of many architectures, written with llama.cpp's own package, which `make python` installs.
set(arch_models ${CMAKE_CURRENT_BINARY_DIR}/arch_models)
add_test(NAME llama_arch_models
  COMMAND ${CMAKE_SOURCE_DIR}/.deps/venv/bin/python -B
          ${CMAKE_SOURCE_DIR}/scripts/make_arch_models.py ${arch_models})
set_tests_properties(llama_arch_models PROPERTIES
  FIXTURES_SETUP arch_models LABELS engine TIMEOUT 900)

add_library(attndb_llama_testing STATIC engine_test_util.cc gguf_test_util.cc)
target_compile_definitions(attndb_llama_testing PRIVATE
  ATTNDB_TINY_MODELS="${tiny_models}" ATTNDB_TEST_TEXT="${test_text}"
  ATTNDB_ARCH_MODELS="${arch_models}"
  ATTNDB_TINY_THREADS=$<IF:$<STREQUAL:${ATTNDB_SANITIZE},thread>,2,1>)
target_link_libraries(attndb_llama_testing PUBLIC attndb_llama_static PRIVATE llama GTest::gtest attndb_warnings)
add_dependencies(attndb_llama_testing attndb_llama_test_data)

# All but a few tests run their model on one thread, so that programs can run side by side; under
# ThreadSanitizer on two, which then meet in every test.
attndb_add_test(llama_test
  SOURCES abort_guard_test.cc attention_graph_test.cc attention_hook_test.cc chat_template_test.cc
          embedder_test.cc engine_agreement_test.cc engine_capture_test.cc engine_failure_test.cc
          engine_generate_test.cc fingerprint_test.cc left_out_test.cc message_places_test.cc
          model_file_test.cc model_places_test.cc model_probe_test.cc
          prompt_items_test.cc prompt_layout_test.cc sampler_test.cc shown_tokens_test.cc special_tokens_test.cc
          suppressed_tokens_test.cc text_cuts_test.cc text_follow_property_test.cc text_follow_test.cc
          text_join_test.cc text_stream_test.cc thinking_tracker_test.cc thread_choice_test.cc thread_shares_test.cc
          token_chances_test.cc vocab_test_util.cc weight_files_test.cc window_test.cc
  LIBS attndb_llama_testing llama LABELS engine TIMEOUT 1200 SHARDS 3)
attndb_add_test(llama_smollm2_test
  SOURCES smollm2_agreement_test.cc
  LIBS attndb_llama_testing llama LABELS engine TIMEOUT 3600 SHARDS 2)
foreach(shard 1 2)  # The longest of all: from the start.
  set_tests_properties(llama_smollm2_test_${shard} PROPERTIES COST 1000)
endforeach()
attndb_add_test(llama_find_test
  SOURCES find_test.cc found_passages_test.cc token_ranges_test.cc LIBS attndb_llama_testing llama LABELS engine TIMEOUT 1200)
# These need no model, or one in a child process.
attndb_add_test(llama_gguf_test
  SOURCES child_process_test.cc gguf_check_test.cc gguf_file_test.cc source_tree_test.cc
  LIBS attndb_llama_testing llama LABELS engine)
set_tests_properties(llama_gguf_test PROPERTIES FIXTURES_REQUIRED arch_models)
attndb_add_test(llama_damage_test
  SOURCES damaged_model_test.cc
  LIBS attndb_llama_testing llama LABELS engine TIMEOUT 1200 SHARDS 2)
# Starts children before any thread of llama.cpp, so it is a program of its own.
attndb_add_test(llama_self_check_test
  SOURCES self_check_test.cc LIBS attndb_llama_testing llama LABELS engine)
# Chat templates. Some tests use the program attndb-chat, and one links what it links.
if(TARGET attndb_chat_program)
  attndb_add_test(llama_chat_test
    SOURCES chat/chat_clock.cc chat/chat_frames_test.cc chat/chat_plan_test.cc
            chat/chat_renderer_test.cc chat/chat_reply_test.cc chat/chat_wire_test.cc
            chat/jinja_template.cc chat/jinja_template_test.cc chat_render_test.cc
            vocab_test_util.cc
    LIBS attndb_llama_testing attndb_llama_static llama ${LLAMA_COMMON_LIBRARY} nlohmann_json::nlohmann_json
    LABELS engine)
  target_include_directories(llama_chat_test SYSTEM PRIVATE ${LLAMA_COMMON_INCLUDE_DIR})
  target_link_options(llama_chat_test PRIVATE -Wl,--wrap=time)
  add_dependencies(llama_chat_test attndb_chat_program)
  # Grammars of replies, which the program keeps.
  attndb_add_test(llama_grammar_test
    SOURCES chat/grammar_complaint.cc chat/grammar_complaint_test.cc chat/grammar_job_test.cc
            reply_grammar_test.cc reply_thinking_test.cc
    LIBS attndb_llama_testing llama LABELS engine TIMEOUT 600)
  add_dependencies(llama_grammar_test attndb_chat_program)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.deps/templates)  # scripts/setup.sh templates
    attndb_add_test(llama_templates_test
      SOURCES template_matrix_test.cc vocab_test_util.cc
      LIBS attndb_llama_testing llama LABELS engine)
    target_compile_definitions(llama_templates_test
      PRIVATE ATTNDB_CHAT_TEMPLATES="${CMAKE_SOURCE_DIR}/.deps/templates")
  endif()
endif()
