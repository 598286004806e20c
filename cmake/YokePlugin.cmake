# cmake/YokePlugin.cmake: builds yoke plugins, in this tree and in projects
# that call find_package(yoke COMPONENTS plugin).
#
# yoke_add_backend(<name> [PROGRAM] <sources...>)
#   Adds the target yoke_backend_<name>, which builds libyoke_backend_<name>.so. It exports only yoke_plugin_entry.
#   Sources may be C, C++ or both.
#   PROGRAM  links yoke::program: the parser, the verifier, the reference executor; the project must enable C++
# Add libraries with target_link_libraries(yoke_backend_<name> PRIVATE ...). Symbols of static
# libraries stay hidden. The loader searches for shared libraries beside the plugin ($ORIGIN), also
# in the build folder. Install the plugin to ${YOKE_PLUGIN_DIR}, or add its folder to YOKE_PLUGIN_PATH.
function(yoke_add_backend name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PROGRAM" "" "")
  set(sources ${arg_UNPARSED_ARGUMENTS})
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "yoke_add_backend: invalid backend name '${name}'; use lower-case letters, digits and _, and start with a letter")
  endif()
  if(NOT sources)
    message(FATAL_ERROR "yoke_add_backend(${name}): no sources were given")
  endif()
  set(target yoke_backend_${name})
  add_library(${target} MODULE ${sources})
  set_target_properties(${target} PROPERTIES PREFIX lib SUFFIX .so OUTPUT_NAME ${target} INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

  # The SDK requires C++20, so only C++ sources get it: a project may enable only C.
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

  # GNU unique symbols would share inline variables between plugins and prevent dlclose.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  set(map ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map)
  target_link_options(${target} PRIVATE LINKER:--version-script=${map} LINKER:--exclude-libs,ALL)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
  # With a sanitizer, the program that loads the plugin defines the sanitizer's symbols.
  if(NOT YOKE_SANITIZE AND NOT "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS} ${CMAKE_MODULE_LINKER_FLAGS}" MATCHES "-fsanitize=")
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
endfunction()
