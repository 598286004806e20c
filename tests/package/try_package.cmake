# tests/package/try_package.cmake: run by ctest; fails with the words of the step that failed.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what}: ${result}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${work})
run("install" ${CMAKE_COMMAND} --install ${build} --prefix ${work}/first)
# An installed tree that only works where it was installed is not relocatable.
file(RENAME ${work}/first ${work}/moved)

run("configure" ${CMAKE_COMMAND} -G ${generator} -S ${source}/app -B ${work}/app -D CMAKE_PREFIX_PATH=${work}/moved
  -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_C_COMPILER=${c_compiler} -D CMAKE_BUILD_TYPE=Release
  -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -D plugin_folder=${plugin_folder})
run("build" ${CMAKE_COMMAND} --build ${work}/app)
run("run the application" ${CMAKE_COMMAND} -E env --unset=YOKE_PLUGIN_PATH ${work}/app/application)
if(NOT output MATCHES "^loss (0\\.|[0-9.]+e-)")
  message(FATAL_ERROR "the application printed:\n${output}")
endif()
run("run the installed command" ${CMAKE_COMMAND} -E env --unset=YOKE_PLUGIN_PATH ${work}/moved/bin/yoke backends)
file(REAL_PATH ${work}/moved/${libdir}/yoke/libyoke_backend_cc.so plugin)
string(FIND "${output}" "${plugin}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "yoke backends does not look beside the installed library:\n${output}")
endif()
if(NOT EXISTS ${work}/app/libyoke_backend_nothing.so)
  message(FATAL_ERROR "the plugin of COMPONENTS plugin was not built")
endif()

# Nothing installed may point back into the build or source tree.
file(GLOB_RECURSE configs ${work}/moved/*.cmake)
foreach(config ${configs})
  file(READ ${config} text)
  string(FIND "${text}" "${build}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${config} names the build folder")
  endif()
endforeach()
