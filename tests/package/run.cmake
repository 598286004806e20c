# tests/package/run.cmake: run(<what> <command>...) runs a command, with its output in `output`; a failure ends the test.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${what}: ${result}\n${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The environment must not affect what compilers and CMake find.
foreach(variable CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH YOKE_PLUGIN_PATH CMAKE_PREFIX_PATH yoke_DIR)
  unset(ENV{${variable}})
endforeach()
