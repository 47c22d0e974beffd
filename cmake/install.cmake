# cmake --install: library, header, pkg-config file, CMake package, licence.
include(CMakePackageConfigHelpers)

install(TARGETS tutti EXPORT tutti LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${TUTTI_HEADER} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
install(EXPORT tutti NAMESPACE tutti:: FILE tutti-config.cmake DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(tutti-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tutti-config-version.cmake DESTINATION ${package_dir})

# The prefix follows from where tutti.pc lies, so that an installed tree can be moved.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH TUTTI_PC_TO_PREFIX ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir}
     ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/tutti.pc.in tutti.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tutti.pc DESTINATION ${pkgconfig_dir})
