# tests/package/try_package.cmake: run by ctest; builds and runs app/, and runs the installed command.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${work})
run("configure" ${CMAKE_COMMAND} -G ${generator} -S ${source}/app -B ${work}/app -D CMAKE_PREFIX_PATH=${prefix}/all
  -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_C_COMPILER=${c_compiler} -D CMAKE_CXX_COMPILER_LAUNCHER=${launcher} -D CMAKE_BUILD_TYPE=Release
  -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -D plugin_folder=${plugin_folder}
  -D readme=${source}/../../README.md -D docs=${prefix}/all/share/doc/yoke)
run("build" ${CMAKE_COMMAND} --build ${work}/app)
run("run the application" ${work}/app/application)
if(NOT output MATCHES "^loss (0\\.|[0-9.]+e-)")
  message(FATAL_ERROR "the application printed:\n${output}")
endif()
run("run the guide for embedders" ${work}/app/guide)
foreach(line "received 4" "x[3, 2] is 110" "the gradient at 3 is 6" "logits [8, 16, 65], 38 parameters, the last is 5.bias" "0 programs needed the fallback" "accuracy "
    "step 1: " "resuming after step 2" "weights 3 and -2, by hand the same bits" "INVALID_ARGUMENT: cc:0: compile: " "finished" "threads: " "0 violations")
  string(FIND "${output}" "${line}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "the guide's program does not print '${line}':\n${output}")
  endif()
endforeach()
run("run the installed command" ${prefix}/all/bin/yoke backends)
file(REAL_PATH ${prefix}/all/${libdir}/yoke/libyoke_backend_cc.so plugin)
string(FIND "${output}" "${plugin}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "yoke backends does not list the plugin beside the installed library:\n${output}")
endif()
if(NOT EXISTS ${work}/app/libyoke_backend_nothing.so)
  message(FATAL_ERROR "the plugin libyoke_backend_nothing.so was not built")
endif()
