# tests/package/install.cmake: run by ctest; installs the build twice and moves both: <prefix>/all, and <prefix>/plugin with what an author of
# a backend needs and nothing else.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${prefix})
run("install" ${CMAKE_COMMAND} --install ${build} --prefix ${prefix}/first/all)
run("install the component plugin" ${CMAKE_COMMAND} --install ${build} --component plugin --prefix ${prefix}/first/plugin)
# An installed tree that only works where it was installed is not relocatable.
file(RENAME ${prefix}/first/all ${prefix}/all)
file(RENAME ${prefix}/first/plugin ${prefix}/plugin)

# An author without the source tree has the guide, and every page that it names.
file(GLOB_RECURSE guide ${prefix}/plugin/*/backend-authors.md)
file(READ ${guide} text)
string(REGEX MATCHALL "`[a-zA-Z_/]+\\.md`" pages "${text}")
list(LENGTH pages page_count)
if(page_count LESS 5)
  message(FATAL_ERROR "${guide} names only these pages: ${pages}")
endif()
cmake_path(GET guide PARENT_PATH folder)
foreach(page ${pages})
  string(REPLACE "`" "" page ${page})
  if(NOT EXISTS ${folder}/${page})
    message(FATAL_ERROR "${guide} names ${page}, which is not installed")
  endif()
endforeach()

# Nothing installed may point back into the build or source tree. A folder stands where a path begins: "lib/yoke" does not name "/yoke".
file(GLOB_RECURSE configs ${prefix}/*.cmake)
foreach(config ${configs})
  file(READ ${config} text)
  foreach(folder ${build} ${source} ${prefix})
    string(REGEX REPLACE "([][+.*()^$?|{}\\\\])" "\\\\\\1" pattern "${folder}")
    if(text MATCHES "(^|[^A-Za-z0-9_.}-]|-[IL])${pattern}(/|[^A-Za-z0-9_.-]|$)")
      message(FATAL_ERROR "${config} names ${folder}")
    endif()
  endforeach()
endforeach()
