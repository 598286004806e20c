# Builds the installed examples minimal, executor and partial, and trains with them.
foreach(name minimal executor partial)
  yoke_add_out_of_tree(${name} ${YOKE_INSTALLED_PREFIX}/plugin/${CMAKE_INSTALL_DATADIR}/yoke/examples/${name})
  add_test(NAME out_of_tree.${name}.TrainsHalfMoons
    COMMAND ${CMAKE_COMMAND} -D name=${name} -D plugins=${YOKE_OUT_OF_TREE_DIR}/${name}/build -D prefix=${YOKE_INSTALLED_PREFIX}/all
      -P ${CMAKE_CURRENT_LIST_DIR}/train.cmake)
  set_tests_properties(out_of_tree.${name}.TrainsHalfMoons PROPERTIES LABELS out_of_tree TIMEOUT 900
    FIXTURES_REQUIRED "installed_tree;out_of_tree_${name}")
endforeach()

# Each example adds the conformance kit as a test of its project.
if(EXISTS ${PROJECT_SOURCE_DIR}/cmake/YokeConformance.cmake)
  foreach(name minimal executor partial)
    add_test(NAME out_of_tree.${name}.PassesTheConformanceKit
      COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${YOKE_OUT_OF_TREE_DIR}/${name}/build --output-on-failure --no-tests=error)
    set_tests_properties(out_of_tree.${name}.PassesTheConformanceKit PROPERTIES LABELS "out_of_tree+conformance" TIMEOUT 2400
      FIXTURES_REQUIRED "installed_tree;out_of_tree_${name}")
  endforeach()
endif()
