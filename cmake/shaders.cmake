# Compiles every line of shaders/manifest.txt to SPIR-V and embeds it, with a
# table of what was built. An edited include recompiles what reads it; a shader
# that does not compile fails the build. A line that asks for a GLSL extension
# (glsl:NAME) which this compiler does not know is left out, and said so.

find_program(GLSLC glslc)
if(NOT GLSLC)
    message(FATAL_ERROR "The GLSL compiler is missing: install glslc.")
endif()

# A sanitized build runs the same kernels: they are data.
if(KOMPUTE_GO_KERNELS)
    add_library(kpx_kernels OBJECT IMPORTED)
    set_target_properties(kpx_kernels PROPERTIES
        IMPORTED_OBJECTS ${KOMPUTE_GO_KERNELS}/CMakeFiles/kpx_kernels.dir/generated/gen_kernels.cpp.o)
    return()
endif()

set(KPX_SHADERS ${PROJECT_SOURCE_DIR}/shaders)
set(KPX_GENERATED ${PROJECT_BINARY_DIR}/generated)
set(KPX_SPIRV ${KPX_GENERATED}/spirv)
file(MAKE_DIRECTORY ${KPX_SPIRV})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${KPX_SHADERS}/manifest.txt)

# Whether glslc knows the GLSL extension. Probed once per extension and compiler.
function(kpx_probe_glsl extension out)
    set(cache KPX_GLSL_${extension})
    if(NOT DEFINED ${cache})
        set(probe ${KPX_GENERATED}/probe.comp)
        file(WRITE ${probe} "#version 450\n#extension ${extension} : require\nlayout(local_size_x = 1) in;\nvoid main() {}\n")
        execute_process(COMMAND ${GLSLC} --target-env=vulkan1.2 -o ${probe}.spv ${probe}
            RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
        if(failed)
            set(${cache} OFF CACHE INTERNAL "")
        else()
            set(${cache} ON CACHE INTERNAL "")
        endif()
    endif()
    set(${out} ${${cache}} PARENT_SCOPE)
endfunction()

# Splits a requires column into device features and a skip reason.
function(kpx_requirements column out_features out_missing)
    set(features "")
    set(missing "")
    string(REPLACE "," ";" column "${column}")
    foreach(token IN LISTS column)
        if(token MATCHES "^glsl:(.+)$")
            set(extension ${CMAKE_MATCH_1})
            kpx_probe_glsl(${extension} known)
            if(NOT known)
                set(missing ${extension})
            endif()
        elseif(NOT token STREQUAL "-")
            string(APPEND features "${token},")
        endif()
    endforeach()
    set(${out_features} "${features}" PARENT_SCOPE)
    set(${out_missing} "${missing}" PARENT_SCOPE)
endfunction()

file(STRINGS ${KPX_SHADERS}/manifest.txt lines ENCODING UTF-8)
set(arrays "")
set(table "")
set(outputs "")
set(names "")
foreach(line IN LISTS lines)
    if(line MATCHES "^[ \t]*(#|$)")
        continue()
    endif()
    separate_arguments(columns UNIX_COMMAND "${line}")
    list(LENGTH columns count)
    if(count LESS 5)
        message(FATAL_ERROR "shaders/manifest.txt: '${line}' has ${count} columns, not kernel, variant, source, requires, defines.")
    endif()
    list(POP_FRONT columns kernel variant source requires)
    list(REMOVE_ITEM columns "-")
    set(name ${kernel}.${variant})
    if(name IN_LIST names)
        message(FATAL_ERROR "shaders/manifest.txt: ${name} is listed twice.")
    endif()
    list(APPEND names ${name})
    if(NOT EXISTS ${KPX_SHADERS}/${source})
        message(FATAL_ERROR "shaders/manifest.txt: ${name} needs shaders/${source}, which is missing.")
    endif()
    kpx_requirements("${requires}" features missing)
    if(missing)
        message(STATUS "kernel ${name}: left out, ${GLSLC} does not know ${missing}")
        continue()
    endif()
    set(output ${KPX_SPIRV}/${name}.inc)
    add_custom_command(OUTPUT ${output}
        COMMAND ${GLSLC} --target-env=vulkan1.2 -O -Werror -mfmt=c ${columns} -I${KPX_SHADERS}/include
                -MD -MF ${output}.d -MT ${output} -o ${output} ${KPX_SHADERS}/${source}
        DEPENDS ${KPX_SHADERS}/${source} ${KPX_SHADERS}/manifest.txt
        DEPFILE ${output}.d
        COMMENT "glslc ${name}" VERBATIM)
    string(MAKE_C_IDENTIFIER "spirv_${name}" symbol)
    string(APPEND arrays "const uint32_t ${symbol}[] =\n#include \"spirv/${name}.inc\"\n;\n")
    string(APPEND table "    {\"${kernel}\", \"${variant}\", \"${features}\", ${symbol}, sizeof ${symbol}},\n")
    list(APPEND outputs ${output})
endforeach()

file(CONFIGURE OUTPUT ${KPX_GENERATED}/gen_kernels.cpp CONTENT
"// Made by cmake/shaders.cmake from shaders/manifest.txt.
#include \"runtime/embedded.hpp\"

namespace {
@arrays@} // namespace

namespace kpx {
const EmbeddedKernel embedded_kernels[] = {
@table@};
const uint32_t embedded_kernel_count = sizeof embedded_kernels / sizeof embedded_kernels[0];
} // namespace kpx
" @ONLY)
add_library(kpx_kernels OBJECT ${KPX_GENERATED}/gen_kernels.cpp)
target_include_directories(kpx_kernels PRIVATE ${PROJECT_SOURCE_DIR}/csrc ${KPX_GENERATED})
set_source_files_properties(${KPX_GENERATED}/gen_kernels.cpp PROPERTIES OBJECT_DEPENDS "${outputs}")
