# tests/out_of_tree/build.cmake: run by ctest; builds a copy of a project against the installed tree only.
include(${CMAKE_CURRENT_LIST_DIR}/../package/run.cmake)

file(REMOVE_RECURSE ${work})
file(COPY ${source}/ DESTINATION ${work}/source)
run("configure" ${CMAKE_COMMAND} -G ${generator} -S ${work}/source -B ${work}/build -D CMAKE_PREFIX_PATH=${prefix}
  -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_C_COMPILER=${c_compiler} -D CMAKE_CXX_COMPILER_LAUNCHER=${launcher} -D CMAKE_C_COMPILER_LAUNCHER=${launcher}
  -D CMAKE_BUILD_TYPE=Release -D CMAKE_EXPORT_COMPILE_COMMANDS=ON -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF ${options})
run("build" ${CMAKE_COMMAND} --build ${work}/build)
set(plugin ${work}/build/libyoke_backend_${name}.so)
if(NOT EXISTS ${plugin})
  message(FATAL_ERROR "${plugin} was not built")
endif()

# Include paths must not refer to this source tree, except to the installed tree inside the build folder.
file(READ ${work}/build/compile_commands.json commands)
string(REGEX MATCHALL "(-I|-isystem|-iquote|-include) *[^ \"]+" includes "${commands}")
foreach(include ${includes})
  string(REGEX REPLACE "^-(I|isystem|iquote|include) *" "" folder "${include}")
  cmake_path(IS_PREFIX tree ${folder} NORMALIZE is_in_tree)
  cmake_path(IS_PREFIX prefix ${folder} NORMALIZE is_installed)
  cmake_path(IS_PREFIX work ${folder} NORMALIZE is_in_project)
  if(is_in_tree AND NOT is_installed AND NOT is_in_project)
    message(FATAL_ERROR "${name} is compiled with ${include}, which is not installed")
  endif()
endforeach()

# Rule 1: one exported symbol.
find_program(nm nm REQUIRED)
run("list the symbols" ${nm} --dynamic --defined-only --format=posix ${plugin})
string(REGEX REPLACE "^(yoke_plugin_entry T [^\n]*\n)$" "" others "${output}")
if(others)
  message(FATAL_ERROR "${name} exports symbols other than yoke_plugin_entry:\n${output}")
endif()

# An empty entry in the library path means the working directory.
find_program(readelf readelf REQUIRED)
run("list the library path" ${readelf} --dynamic ${plugin})
if(output MATCHES "R(UN)?PATH[^\n]*(\\[:|::|:])")
  message(FATAL_ERROR "${name} searches the working directory for libraries:\n${output}")
endif()
