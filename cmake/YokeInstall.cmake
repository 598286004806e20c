# cmake/YokeInstall.cmake: install rules and the package for find_package(yoke
# [COMPONENTS plugin]). The installed tree can be moved.
#
# Components for `cmake --install <build> --component <name>`; without --component, all are installed:
#   runtime      libyoke, the yoke command, the backends
#   plugin       everything for authors of backends: headers, SDK, program library, CMake files, guide, examples,
#                the conformance kit, and libyoke and cc to run it
#   development  headers and libraries for embedding yoke; requires the other two
include(CMakePackageConfigHelpers)
set(yoke_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/yoke)

# yoke_install(<export set> <component> <target>...): installs libraries and their include folders. Shared libraries
# go to the component runtime.
function(yoke_install export_set component)
  foreach(target ${ARGN})
    install(TARGETS ${target} EXPORT ${export_set}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT ${component}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component})
    get_target_property(folder ${target} SOURCE_DIR)
    install(DIRECTORY ${folder}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT ${component})
  endforeach()
  install(EXPORT ${export_set} FILE ${export_set}.cmake NAMESPACE yoke:: DESTINATION ${yoke_config_dir} COMPONENT ${component})
endfunction()

if(TARGET yoke_plugin_api)
  yoke_install(yokePluginTargets plugin yoke_plugin_api yoke_program yoke_plugin_sdk)
endif()
if(TARGET yoke_runtime AND TARGET yoke_frontend)
  set_target_properties(yoke_runtime PROPERTIES EXPORT_NAME runtime INSTALL_RPATH "$ORIGIN")
  set_target_properties(yoke_frontend PROPERTIES EXPORT_NAME frontend)
  yoke_install(yokeTargets development yoke_runtime yoke_frontend)
  # libyoke looks for yoke-probe at this relative path.
  file(RELATIVE_PATH probe_up_to_lib /${YOKE_PROBE_FOLDER} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(yoke_probe PROPERTIES INSTALL_RPATH "$ORIGIN/${probe_up_to_lib}")
  install(TARGETS yoke_probe RUNTIME DESTINATION ${YOKE_PROBE_FOLDER} COMPONENT runtime)
  install(TARGETS yoke_probe RUNTIME DESTINATION ${YOKE_PROBE_FOLDER} COMPONENT plugin)
  # The guide for embedders, next to the guide for authors of backends.
  install(FILES ${PROJECT_SOURCE_DIR}/frontends/guide/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development
    RENAME embedders.md)
  foreach(page runtimes programs modules training steps errors plugins)
    install(FILES ${PROJECT_SOURCE_DIR}/frontends/guide/${page}.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
  endforeach()
  # The conformance kit loads plugins through libyoke.
  install(TARGETS yoke_runtime LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT plugin NAMELINK_SKIP)
endif()
if(TARGET yoke_backend_cc)
  # The fallback for backends without programs; the conformance kit tests them with it.
  install(TARGETS yoke_backend_cc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/yoke COMPONENT plugin)
endif()
if(TARGET yoke_command)
  file(RELATIVE_PATH up_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(yoke_command PROPERTIES INSTALL_RPATH "$ORIGIN/${up_to_lib}")
  install(TARGETS yoke_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endif()

if(TARGET yoke_plugin_api)
  configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/yokeConfig.cmake.in ${PROJECT_BINARY_DIR}/cmake/yokeConfig.cmake
    INSTALL_DESTINATION ${yoke_config_dir} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/yokeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/cmake/yokeConfig.cmake ${PROJECT_BINARY_DIR}/cmake/yokeConfigVersion.cmake
    ${CMAKE_CURRENT_LIST_DIR}/YokePlugin.cmake ${CMAKE_CURRENT_LIST_DIR}/plugin.map
    DESTINATION ${yoke_config_dir} COMPONENT plugin)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/YokeConformance.cmake)
    install(FILES ${CMAKE_CURRENT_LIST_DIR}/YokeConformance.cmake DESTINATION ${yoke_config_dir} COMPONENT plugin)
  endif()
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT plugin)
  # The guide for authors and the files it links to, at the paths it uses.
  install(FILES ${PROJECT_SOURCE_DIR}/plugin_api/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT plugin RENAME backend-authors.md)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/plugin_api/guide DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT plugin PATTERN README.md EXCLUDE)
  install(FILES ${PROJECT_SOURCE_DIR}/plugin_api/CHANGELOG.md ${PROJECT_SOURCE_DIR}/plugin_api/RULES.md
    DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT plugin)
  foreach(folder plugin_api/sdk plugin_api/program plugin_api/conformance runtime/layers)
    string(REGEX REPLACE "^plugin_api/" "" place ${folder})
    install(FILES ${PROJECT_SOURCE_DIR}/${folder}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/${place} COMPONENT plugin)
  endforeach()
  install(FILES ${PROJECT_SOURCE_DIR}/plugin_api/program/FORMAT.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/program COMPONENT plugin)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/plugin_api/program/corpus DESTINATION ${CMAKE_INSTALL_DATADIR}/yoke COMPONENT plugin)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/plugin_api/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/yoke COMPONENT plugin
    PATTERN .clang-tidy EXCLUDE)
endif()
