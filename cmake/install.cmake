# `cmake --install`: headers, libraries, the command line, and packages for CMake and pkg-config. All
# of it may be moved to another place afterwards. docs/install.md says how it is used.
#
#   component runtime      libattndb.so, libattndb_simulate.so, the command line with the programs
#                          that it starts, its manual page and completion, the docs
#   component development  headers, libattndb.a, the adapter, lib/cmake/attndb, lib/pkgconfig
#   component python       what goes into a wheel; python/CMakeLists.txt has its rules
#
# A llama.cpp from .deps/llama is installed too, in a folder of attndb's own, because nothing else on
# the machine knows of it. One that was found elsewhere stays there and is referred to.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attndb)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
file(RELATIVE_PATH pkgconfig_to_prefix /${pkgconfig_dir} /)
string(REGEX REPLACE "/$" "" pkgconfig_to_prefix "${pkgconfig_to_prefix}")

set(bundle_llama OFF)
if(ATTNDB_BUILD_LLAMA)
  string(FIND "${LLAMA_LIB_DIR}" "${CMAKE_SOURCE_DIR}/.deps/" position)
  if(position EQUAL 0)
    set(bundle_llama ON)
  endif()
endif()

# Libraries. ../lib is where the command line of a wheel finds them.
set_target_properties(attndb_simulate PROPERTIES EXPORT_NAME simulate)
install(TARGETS attndb attndb_simulate EXPORT attndbTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS attndb_static EXPORT attndbStaticTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(export_sets attndbTargets attndbStaticTargets)
if(ATTNDB_BUILD_CLI)
  set_target_properties(${ATTNDB_PROGRAMS} PROPERTIES INSTALL_RPATH
    "$ORIGIN/${bin_to_lib};$ORIGIN/${bin_to_lib}/attndb;$ORIGIN/../lib")
  if(ATTNDB_BUILD_LLAMA AND NOT bundle_llama)
    set_target_properties(${ATTNDB_PROGRAMS} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  endif()
  install(TARGETS ${ATTNDB_PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  if(NOT CMAKE_CROSSCOMPILING)
    set(share ${CMAKE_BINARY_DIR}/cli/share)
    set(data ${CMAKE_INSTALL_DATADIR})
    install(FILES ${share}/attndb.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
    install(FILES ${share}/attndb DESTINATION ${data}/bash-completion/completions
            COMPONENT runtime)
    install(FILES ${share}/_attndb DESTINATION ${data}/zsh/site-functions COMPONENT runtime)
    install(FILES ${share}/attndb.fish DESTINATION ${data}/fish/vendor_completions.d
            COMPONENT runtime)
  endif()
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/attndb DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development FILES_MATCHING PATTERN "*.h")

# The adapter: a static library upon either of the two. Its headers are attndb/llama/*.h outside of
# this tree, and include headers of attndb only.
if(ATTNDB_BUILD_LLAMA)
  set_target_properties(attndb_llama PROPERTIES EXPORT_NAME llama)
  set_target_properties(attndb_llama_static PROPERTIES EXPORT_NAME llama_static)
  install(TARGETS attndb_llama attndb_llama_static EXPORT attndbLlamaTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  list(APPEND export_sets attndbLlamaTargets)
  # They include each other by the folder that they are installed in.
  set(llama_headers)
  foreach(name chat_prompt embedder llama_engine model_file plain_context)
    set(source ${CMAKE_SOURCE_DIR}/engines/llama/${name}.h)
    set(installed ${CMAKE_CURRENT_BINARY_DIR}/installed/${name}.h)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(READ ${source} text)
    string(REPLACE "\"engines/llama/" "\"attndb/llama/" text "${text}")
    file(WRITE ${installed} "${text}")
    list(APPEND llama_headers ${installed})
  endforeach()
  install(FILES ${llama_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/attndb/llama COMPONENT development)
  if(bundle_llama)
    install(DIRECTORY ${LLAMA_LIB_DIR}/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/attndb
            COMPONENT runtime FILES_MATCHING PATTERN "*.so*" PATTERN cmake EXCLUDE
            PATTERN pkgconfig EXCLUDE)
  endif()
endif()

# find_package(attndb).
foreach(set IN LISTS export_sets)
  install(EXPORT ${set} NAMESPACE attndb:: DESTINATION ${package_dir} COMPONENT development)
endforeach()
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/attndbConfig.cmake.in attndbConfig.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(attndbConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/attndbConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/attndbConfigVersion.cmake
              ${CMAKE_SOURCE_DIR}/cmake/FindISAL.cmake
        DESTINATION ${package_dir} COMPONENT development)

# pkg-config attndb, attndb_simulate, attndb_llama.
set(llama_requires "")
set(llama_libs "-L\${libdir}/attndb -lllama -lggml -lggml-base")
if(NOT bundle_llama)
  set(llama_requires ", llama")
  set(llama_libs "")
endif()
set(packages attndb attndb_simulate)
if(ATTNDB_BUILD_LLAMA)
  list(APPEND packages attndb_llama)
endif()
foreach(package IN LISTS packages)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/${package}.pc.in ${package}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${package}.pc DESTINATION ${pkgconfig_dir}
          COMPONENT development)
endforeach()

# packaging/attndb.service names one of these pages; they refer to each other.
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
if(ATTNDB_BUILD_SERVER)  # Its page has marked in it.
  install(FILES ${CMAKE_SOURCE_DIR}/server/page/marked-license.txt
          DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime
        FILES_MATCHING PATTERN "*.md" PATTERN "*.yaml" PATTERN "*.png" PATTERN "*.svg")
