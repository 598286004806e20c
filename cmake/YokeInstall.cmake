# cmake/YokeInstall.cmake: make install, and find_package(yoke [COMPONENTS plugin]) for what uses it. The installed tree can be moved.
include(CMakePackageConfigHelpers)
set(yoke_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/yoke)
# A room left out with YOKE_ONLY leaves out its part.
set(yoke_has_runtime FALSE)

# yoke_install(<export set> <target>...): libraries, and the include folder of each.
function(yoke_install export_set)
  foreach(target ${ARGN})
    install(TARGETS ${target} EXPORT ${export_set}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    get_target_property(folder ${target} SOURCE_DIR)
    install(DIRECTORY ${folder}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endforeach()
  install(EXPORT ${export_set} FILE ${export_set}.cmake NAMESPACE yoke:: DESTINATION ${yoke_config_dir})
endfunction()

if(TARGET yoke_plugin_api)
  yoke_install(yokePluginTargets yoke_plugin_api yoke_program yoke_plugin_sdk)
endif()
if(TARGET yoke_runtime AND TARGET yoke_frontend)
  set(yoke_has_runtime TRUE)
  set_target_properties(yoke_runtime PROPERTIES EXPORT_NAME runtime INSTALL_RPATH "$ORIGIN")
  set_target_properties(yoke_frontend PROPERTIES EXPORT_NAME frontend)
  yoke_install(yokeTargets yoke_runtime yoke_frontend)
endif()
if(TARGET yoke_command)
  file(RELATIVE_PATH up_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(yoke_command PROPERTIES INSTALL_RPATH "$ORIGIN/${up_to_lib}")
  install(TARGETS yoke_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

if(TARGET yoke_plugin_api)
  configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/yokeConfig.cmake.in ${PROJECT_BINARY_DIR}/cmake/yokeConfig.cmake
    INSTALL_DESTINATION ${yoke_config_dir} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/yokeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/cmake/yokeConfig.cmake ${PROJECT_BINARY_DIR}/cmake/yokeConfigVersion.cmake
    DESTINATION ${yoke_config_dir})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()
