# tests/package/run.cmake: run(<what> <command>...): its words in `output`; stops with them where it fails.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${what}: ${result}\n${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# Nothing but what a test passes decides what a compiler finds.
foreach(variable CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH YOKE_PLUGIN_PATH CMAKE_PREFIX_PATH yoke_DIR)
  unset(ENV{${variable}})
endforeach()
