# Compiles the snippets in the guides for authors against the installed headers, and runs the kit on the backend in the section Start.
find_package(Python3 QUIET COMPONENTS Interpreter)
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/plugin_api/guide/*.md)
set(kit "")
if(TARGET yoke_conformance)
  set(kit --kit ${YOKE_INSTALLED_PREFIX}/plugin/bin/yoke-conformance)
endif()
if(Python3_FOUND)
  add_test(NAME out_of_tree.guides.SnippetsCompile
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/compile_snippets.py --prefix ${YOKE_INSTALLED_PREFIX}/plugin
      --work ${YOKE_OUT_OF_TREE_DIR}/snippets --cmake ${CMAKE_COMMAND} --generator ${CMAKE_GENERATOR}
      --compiler ${CMAKE_CXX_COMPILER} --c-compiler ${CMAKE_C_COMPILER} --launcher=${CMAKE_CXX_COMPILER_LAUNCHER}
      ${kit} ${PROJECT_SOURCE_DIR}/plugin_api/README.md ${pages} ${PROJECT_SOURCE_DIR}/plugin_api/sdk/README.md
      ${PROJECT_SOURCE_DIR}/plugin_api/program/README.md)
  set_tests_properties(out_of_tree.guides.SnippetsCompile PROPERTIES LABELS out_of_tree TIMEOUT 900 FIXTURES_REQUIRED installed_tree)
else()
  message(STATUS "snippets of the guides: not tested, python3 is missing")
endif()
