# tests/package/install.cmake: run by ctest; installs everything to <prefix>/all, and the component for authors of backends to <prefix>/plugin.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${prefix})
run("install" ${CMAKE_COMMAND} --install ${build} --prefix ${prefix}/first/all)
run("install the component plugin" ${CMAKE_COMMAND} --install ${build} --component plugin --prefix ${prefix}/first/plugin)
# Moves both trees, to test that they are relocatable.
file(RENAME ${prefix}/first/all ${prefix}/all)
file(RENAME ${prefix}/first/plugin ${prefix}/plugin)

# The guides and every page that they refer to are installed.
foreach(name plugin/*/backend-authors.md all/*/embedders.md)
  file(GLOB_RECURSE guide ${prefix}/${name})
  file(READ ${guide} text)
  string(REGEX MATCHALL "`[a-zA-Z_/-]+\\.md`" pages "${text}")
  list(LENGTH pages page_count)
  if(page_count LESS 5)
    message(FATAL_ERROR "${guide} names only ${page_count} pages: ${pages}")
  endif()
  cmake_path(GET guide PARENT_PATH folder)
  foreach(page ${pages})
    string(REPLACE "`" "" page ${page})
    if(NOT EXISTS ${folder}/${page})
      message(FATAL_ERROR "${guide} names ${page}, which is not installed")
    endif()
  endforeach()
endforeach()

# Installed files must not refer to the build or source tree. The pattern matches a folder only at the start of a path:
# "lib/yoke" does not match "/yoke".
file(GLOB_RECURSE configs ${prefix}/*.cmake)
foreach(config ${configs})
  file(READ ${config} text)
  foreach(folder ${build} ${source} ${prefix})
    string(REGEX REPLACE "([][+.*()^$?|{}\\\\])" "\\\\\\1" pattern "${folder}")
    if(text MATCHES "(^|[^A-Za-z0-9_.}-]|-[IL])${pattern}(/|[^A-Za-z0-9_.-]|$)")
      message(FATAL_ERROR "${config} refers to ${folder}")
    endif()
  endforeach()
endforeach()
