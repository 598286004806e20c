# cmake/YokePlugin.cmake: what makes a shared object a plugin of yoke, for this tree and for any other; find_package(yoke COMPONENTS plugin) includes it.
#
# yoke_add_backend(<name> [PROGRAM] <sources...>)
#   The target yoke_backend_<name>: libyoke_backend_<name>.so, exporting yoke_plugin_entry and nothing else. Sources in C, C++ or both.
#   PROGRAM  links yoke::program: the parser, the verifier, the reference executor (needs C++ in the project).
# Libraries of your own go in with target_link_libraries(yoke_backend_<name> PRIVATE ...): a static one stays hidden inside, a shared one is
# found beside the plugin ($ORIGIN). Install it to ${YOKE_PLUGIN_DIR}, or put its folder into YOKE_PLUGIN_PATH.
function(yoke_add_backend name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PROGRAM" "" "")
  set(sources ${arg_UNPARSED_ARGUMENTS})
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "yoke_add_backend: '${name}' is no name of a backend: lower-case letters, digits and _, a letter first")
  endif()
  if(NOT sources)
    message(FATAL_ERROR "yoke_add_backend(${name}): no sources were given")
  endif()
  set(target yoke_backend_${name})
  add_library(${target} MODULE ${sources})
  set_target_properties(${target} PROPERTIES PREFIX lib SUFFIX .so OUTPUT_NAME ${target} INSTALL_RPATH "$ORIGIN"
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

  # The C++ kit asks for C++20, which a project in C alone does not know.
  set(cxx_sources ${sources})
  list(FILTER cxx_sources EXCLUDE REGEX "\\.c$")
  target_link_libraries(${target} PRIVATE yoke::plugin_api)
  if(cxx_sources)
    find_package(Threads REQUIRED)  # yoke/sdk/worker_stream.h
    target_link_libraries(${target} PRIVATE yoke::plugin_sdk Threads::Threads)
  endif()
  if(arg_PROGRAM)
    target_link_libraries(${target} PRIVATE yoke::program)
  endif()

  # One definition for the whole process is what gnu-unique symbols are for; a plugin must stay alone with its own.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  set(map ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map)
  target_link_options(${target} PRIVATE LINKER:--version-script=${map} LINKER:--exclude-libs,ALL)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
  # A sanitizer's runtime is in the program that loads the plugin, so then its symbols are undefined here.
  if(NOT YOKE_SANITIZE AND NOT "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS} ${CMAKE_MODULE_LINKER_FLAGS}" MATCHES "-fsanitize=")
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
endfunction()
