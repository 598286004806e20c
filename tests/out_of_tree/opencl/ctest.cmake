# Tests of the OpenCL example on PoCL, an OpenCL driver for CPUs.
find_path(YOKE_OPENCL_HEADERS CL/cl.h)
mark_as_advanced(YOKE_OPENCL_HEADERS)
if(NOT YOKE_OPENCL_HEADERS)
  message(STATUS "OpenCL example: not tested, CL/cl.h is missing (Debian: opencl-c-headers)")
  return()
endif()
if(YOKE_SANITIZE)
  return()  # OpenCL drivers contain LLVM, which is not instrumented
endif()

set(YOKE_OPENCL_SOURCE ${PROJECT_SOURCE_DIR}/plugin_api/examples/opencl)
yoke_add_out_of_tree(opencl ${YOKE_OPENCL_SOURCE} -DOPENCL_INCLUDE_DIR=${YOKE_OPENCL_HEADERS})

# PoCL is configured to provide two devices, so that copies between devices are tested.
function(yoke_add_opencl_test name timeout)
  add_test(NAME out_of_tree.opencl.${name}
    COMMAND ${CMAKE_COMMAND} -D what=${name} -D commands=${YOKE_INSTALLED_PREFIX}/all/bin -D source=${YOKE_OPENCL_SOURCE}
      -D work=${YOKE_OUT_OF_TREE_DIR}/opencl -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/try.cmake)
  set_tests_properties(out_of_tree.opencl.${name} PROPERTIES LABELS out_of_tree TIMEOUT ${timeout} SKIP_REGULAR_EXPRESSION "SKIPPED:"
    FIXTURES_REQUIRED "installed_tree;out_of_tree_opencl" ENVIRONMENT "POCL_DEVICES=pthread pthread;POCL_CACHE_DIR=${YOKE_TEST_CACHE}/pocl")
endfunction()

yoke_add_opencl_test(TrainsLikeCc 600)
yoke_add_opencl_test(ConformsExceptPrograms 1200)
yoke_add_opencl_test(ConformsInPrograms 3000)
yoke_add_opencl_test(ConformsInOptimizedPrograms 3000)
yoke_add_opencl_test(ReportsWhyThereIsNoDevice 120)

# yoke_add_out_of_tree builds with the compiler of this build; this test uses clang.
find_program(YOKE_CLANG clang++)
mark_as_advanced(YOKE_CLANG)
if(YOKE_CLANG)
  file(GLOB sources CONFIGURE_DEPENDS ${YOKE_OPENCL_SOURCE}/*.cpp)
  add_test(NAME out_of_tree.opencl.CompilesWithClangWithoutAWarning
    COMMAND ${CMAKE_COMMAND} -D compiler=${YOKE_CLANG} -D launcher=${CMAKE_CXX_COMPILER_LAUNCHER} "-Dsources=${sources}"
      -D include=${YOKE_INSTALLED_PREFIX}/plugin/${CMAKE_INSTALL_INCLUDEDIR} -D headers=${YOKE_OPENCL_HEADERS}
      -D work=${YOKE_OUT_OF_TREE_DIR}/opencl_clang -P ${CMAKE_CURRENT_LIST_DIR}/clang.cmake)
  set_tests_properties(out_of_tree.opencl.CompilesWithClangWithoutAWarning PROPERTIES LABELS out_of_tree TIMEOUT 600 FIXTURES_REQUIRED installed_tree)
endif()
