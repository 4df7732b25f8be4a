# A newer GLSL compiler, for kernel variants that the system's glslc cannot
# compile: glslang 16.6, from the sources in the crate glslang-sys, pinned by
# hash. Only the GLSL compiler is built. The program is kept next to the download
# of Kompute, where other builds find it.

set(KPX_GLSLANG_CRATE glslang-sys-0.9.2+e1b562a)
set(KPX_GLSLANG_SHA256 f8ac997482faa54527938d8cc23eeef882d9a68cbce4a9d10bb3d6dbf0d2fbf0)
set(KPX_GLSLANG ${KOMPUTE_CACHE}/${KPX_GLSLANG_CRATE}/glslang)

# Downloads the crate into the cache, once. out: its file, or "" if it cannot be downloaded.
function(kpx_glslang_download out)
    set(crate ${KOMPUTE_CACHE}/${KPX_GLSLANG_CRATE}.crate)
    foreach(turn RANGE 1)
        set(hash "")
        if(EXISTS ${crate})
            file(SHA256 ${crate} hash)
        endif()
        if(hash STREQUAL KPX_GLSLANG_SHA256)
            set(${out} ${crate} PARENT_SCOPE)
            return()
        endif()
        if(turn EQUAL 0)
            message(STATUS "Fetching glslang from crates.io")
            file(DOWNLOAD https://static.crates.io/crates/glslang-sys/${KPX_GLSLANG_CRATE}.crate ${crate}
                TLS_VERIFY ON TIMEOUT 120 INACTIVITY_TIMEOUT 20 STATUS status)
        endif()
    endforeach()
    list(POP_BACK status reason)
    file(REMOVE ${crate})
    message(STATUS "glslang could not be fetched (${reason}): connect to the network, or put ${KPX_GLSLANG_CRATE}.crate into ${KOMPUTE_CACHE}")
    set(${out} "" PARENT_SCOPE)
endfunction()

# The rule that builds the program out of the crate.
function(kpx_glslang_build crate)
    set(tree ${PROJECT_BINARY_DIR}/glslang)
    set(source ${tree}/${KPX_GLSLANG_CRATE}/native/glslang)
    file(ARCHIVE_EXTRACT INPUT ${crate} DESTINATION ${tree}
        PATTERNS */native/glslang/glslang/* */native/glslang/SPIRV/* */native/glslang/StandAlone/*)
    # The headers that its own build would generate.
    file(WRITE ${tree}/include/glslang/glsl_intrinsic_header.h
        "#include <string>\nstatic std::string getIntrinsic(const char *const *, int) { return {}; }\n")
    file(WRITE ${tree}/include/glslang/build_info.h
        "#define GLSLANG_VERSION_MAJOR 16\n#define GLSLANG_VERSION_MINOR 6\n#define GLSLANG_VERSION_PATCH 0\n#define GLSLANG_VERSION_FLAVOR \"\"\n")
    file(GLOB sources ${source}/glslang/MachineIndependent/*.cpp ${source}/glslang/MachineIndependent/preprocessor/*.cpp
        ${source}/glslang/GenericCodeGen/*.cpp ${source}/glslang/OSDependent/Unix/*.cpp
        ${source}/glslang/ResourceLimits/ResourceLimits.cpp ${source}/SPIRV/*.cpp ${source}/StandAlone/StandAlone.cpp)
    add_executable(kpx_glslang EXCLUDE_FROM_ALL ${sources})
    # Building it optimised would take longer than it saves on these few kernels.
    target_compile_options(kpx_glslang PRIVATE -w -O0)
    target_compile_definitions(kpx_glslang PRIVATE ENABLE_SPIRV ENABLE_OPT=0 GLSLANG_OSINCLUDE_UNIX)
    target_include_directories(kpx_glslang SYSTEM PRIVATE ${tree}/include ${source})
    set_target_properties(kpx_glslang PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 7
        RUNTIME_OUTPUT_DIRECTORY ${tree} OUTPUT_NAME glslang)
    set_source_files_properties(${source}/glslang/MachineIndependent/glslang_tab.cpp ${source}/SPIRV/GlslangToSpv.cpp
        ${source}/StandAlone/StandAlone.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    # Moved into place in one step, since other builds may run at the same time.
    string(SHA256 own ${PROJECT_BINARY_DIR})
    add_custom_command(OUTPUT ${KPX_GLSLANG}
        COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:kpx_glslang> ${KPX_GLSLANG}.${own}
        COMMAND ${CMAKE_COMMAND} -E rename ${KPX_GLSLANG}.${own} ${KPX_GLSLANG}
        DEPENDS kpx_glslang COMMENT "Keeping glslang in ${KPX_GLSLANG}" VERBATIM)
endfunction()

# Whether the program exists or can be built. out: it, or "".
function(kpx_glslang out)
    get_property(found GLOBAL PROPERTY KPX_GLSLANG_FOUND)
    if("${found}" STREQUAL "")
        set(found ${KPX_GLSLANG})
        set(failed 1)
        if(EXISTS ${KPX_GLSLANG})
            execute_process(COMMAND ${KPX_GLSLANG} --version RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
        endif()
        if(failed)
            kpx_glslang_download(crate)
            if(crate)
                message(STATUS "glslang: built from ${crate}, since ${GLSLC} does not know every extension that the kernels use")
                file(MAKE_DIRECTORY ${KOMPUTE_CACHE}/${KPX_GLSLANG_CRATE})
                kpx_glslang_build(${crate})
            else()
                set(found NO)
            endif()
        else()
            message(STATUS "glslang: ${KPX_GLSLANG}")
        endif()
        set_property(GLOBAL PROPERTY KPX_GLSLANG_FOUND ${found})
    endif()
    if(NOT found)
        set(found "")
    endif()
    set(${out} "${found}" PARENT_SCOPE)
endfunction()
