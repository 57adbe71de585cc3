# Installs the headers, the CMake package `usher` and usher.pc, whose use README.md describes. Each folder that builds
# libraries or programs installs them itself.
include(CMakePackageConfigHelpers)
# A target that builds everything that is installed, and no tests; used to make packages.
add_custom_target(usher_product)
foreach(target usher_preload usher_preload_all usher_companion usher_locks_shared usher_catalog usher usher_stat usher_bench usher_check)
  if(TARGET ${target})
    add_dependencies(usher_product ${target})
  endif()
endforeach()
install(DIRECTORY include/usher DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(TARGETS usher_headers EXPORT usher)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/usher)
install(EXPORT usher NAMESPACE usher:: FILE usher-targets.cmake DESTINATION ${package_folder})
configure_package_config_file(cmake/usher-config.cmake.in ${PROJECT_BINARY_DIR}/usher-config.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/usher-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/usher-config.cmake ${PROJECT_BINARY_DIR}/usher-config-version.cmake
  DESTINATION ${package_folder})
if(USHER_BUILD_LIBRARIES)
  file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
  configure_file(cmake/usher.pc.in ${PROJECT_BINARY_DIR}/usher.pc @ONLY)
  configure_file(cmake/usher-locks.pc.in ${PROJECT_BINARY_DIR}/usher-locks.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/usher.pc ${PROJECT_BINARY_DIR}/usher-locks.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

# Installs the pages that cmake/installed_pages.cmake makes, LICENSE and examples/. LICENSE and examples/ are installed
# by their real paths, because in the tree that tools/deb.sh makes they are symbolic links.
set(pages ${PROJECT_BINARY_DIR}/pages)
file(GLOB sources CONFIGURE_DEPENDS README.md CHANGELOG.md docs/*.md docs/schema/*)
add_custom_command(OUTPUT ${pages}.made
  COMMAND ${CMAKE_COMMAND} -D FROM=${PROJECT_SOURCE_DIR} -D TO=${pages} -D DOCS=${CMAKE_INSTALL_FULL_DOCDIR}
          -D HEADERS=${CMAKE_INSTALL_FULL_INCLUDEDIR} -P ${PROJECT_SOURCE_DIR}/cmake/installed_pages.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${pages}.made
  DEPENDS ${sources} cmake/installed_pages.cmake VERBATIM)
add_custom_target(usher_pages ALL DEPENDS ${pages}.made)
add_dependencies(usher_product usher_pages)
install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(name LICENSE examples)
  file(REAL_PATH ${name} ${name}_path)
endforeach()
install(FILES ${LICENSE_path} DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${examples_path} DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN "__pycache__" EXCLUDE)
