# kompute-go.pc twice: one that points into this tree, one for the install
# prefix; and the install rules.

file(STRINGS ${PROJECT_SOURCE_DIR}/csrc/abi/kpx.h abi_line REGEX "^#define KPX_ABI_VERSION ")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/csrc/abi/kpx.h)
string(REGEX MATCH "[0-9]+" KPX_ABI_VERSION "${abi_line}")

function(kpx_write_pc path libdir includedir prefix)
    file(CONFIGURE OUTPUT ${path} CONTENT
"prefix=@prefix@
libdir=@libdir@
includedir=@includedir@
abi_version=@KPX_ABI_VERSION@

Name: kompute-go
Description: @PROJECT_DESCRIPTION@
Version: @PROJECT_VERSION@
Cflags: -I\${includedir}
Libs: -L\${libdir} -lkompute-go @KPX_EXTRA_LIBS@ -lstdc++ -ldl -lpthread -lm
" @ONLY)
endfunction()

# pkg-config ends a flag at a space that is not escaped. It escapes those in its own variables.
string(REPLACE " " "\\ " tree ${PROJECT_SOURCE_DIR})
string(REPLACE " " "\\ " built ${PROJECT_BINARY_DIR})
kpx_write_pc(${PROJECT_BINARY_DIR}/pkgconfig/kompute-go.pc ${built} ${tree}/csrc/abi ${built})

# The prefix is known only when installing (cmake --install --prefix), so the
# installed file derives it from its own location.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
kpx_write_pc(${PROJECT_BINARY_DIR}/install/kompute-go.pc
    "\${prefix}/${CMAKE_INSTALL_LIBDIR}" "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}" "\${pcfiledir}/${up}")

install(TARGETS kompute-go ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_SOURCE_DIR}/csrc/abi/kpx.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_BINARY_DIR}/install/kompute-go.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# It tells a program which archive it was compiled for.
install(FILES ${PROJECT_BINARY_DIR}/generated/build_id.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} RENAME kpx_build_id.h)
