# cmake/YokeConformance.cmake: runs the conformance kit as a ctest test. find_package(yoke COMPONENTS plugin)
# includes this file if the kit is installed.
#
# yoke_add_conformance_test(<target> [NAME name] [EXPECT file] [SEED n] [TIMEOUT s] [OPTIONS name=value...]
#                           [REQUIRE table...] [ARGUMENTS word...] [LABELS word...])
#   Adds the test conformance.<name>, which runs yoke-conformance on the plugin that <target> builds and writes
#   conformance-<name>.xml (JUnit) to the current binary folder. Call include(CTest) or enable_testing() first.
#   NAME       default: the target's name without yoke_backend_
#   EXPECT     file of expected failures, one per line: group.test = "reason"
#   SEED       seed of the random numbers, 1 by default, so that runs are reproducible
#   TIMEOUT    limit of the whole run in seconds, 900 by default; each test gets a fifth of it unless ARGUMENTS
#              contains --timeout
#   OPTIONS    options for device_open
#   REQUIRE    tables that the plugin must have, for example yoke.program/1; a missing table is a failure
#   ARGUMENTS  more arguments for yoke-conformance, for example --filter 'copy.*' --programs 200
#   LABELS     ctest labels in addition to conformance
if(NOT TARGET yoke_conformance)
  find_program(YOKE_CONFORMANCE_PROGRAM yoke-conformance HINTS ${PACKAGE_PREFIX_DIR}/bin NO_CACHE)
endif()

function(yoke_add_conformance_test target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;EXPECT;SEED;TIMEOUT" "OPTIONS;REQUIRE;ARGUMENTS;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "yoke_add_conformance_test(${target}): unknown arguments '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(TARGET yoke_conformance)
    set(program $<TARGET_FILE:yoke_conformance>)
  elseif(YOKE_CONFORMANCE_PROGRAM)
    set(program ${YOKE_CONFORMANCE_PROGRAM})
  else()
    message(FATAL_ERROR "yoke_add_conformance_test(${target}): cannot find yoke-conformance; install the component plugin of yoke or add the program to PATH")
  endif()
  if(NOT arg_NAME)
    string(REGEX REPLACE "^yoke_backend_" "" arg_NAME ${target})
  endif()
  if(NOT arg_SEED)
    set(arg_SEED 1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)
  endif()
  set(words --seed ${arg_SEED} --junit ${CMAKE_CURRENT_BINARY_DIR}/conformance-${arg_NAME}.xml)
  if(arg_EXPECT)
    get_filename_component(file ${arg_EXPECT} ABSOLUTE)
    list(APPEND words --expect ${file})
  endif()
  if(NOT "--timeout" IN_LIST arg_ARGUMENTS)
    math(EXPR test_timeout "(${arg_TIMEOUT} + 4) / 5")
    list(APPEND words --timeout ${test_timeout})
  endif()
  foreach(option ${arg_OPTIONS})
    list(APPEND words --option ${option})
  endforeach()
  foreach(table ${arg_REQUIRE})
    list(APPEND words --require ${table})
  endforeach()
  add_test(NAME conformance.${arg_NAME} COMMAND ${program} $<TARGET_FILE:${target}> ${words} ${arg_ARGUMENTS})
  # Join the labels with +, because CMake functions split a list that is passed on.
  string(REPLACE ";" "+" labels "conformance;${arg_LABELS}")
  string(REGEX REPLACE "\\+$" "" labels "${labels}")
  set_tests_properties(conformance.${arg_NAME} PROPERTIES LABELS ${labels} TIMEOUT ${arg_TIMEOUT})
endfunction()
