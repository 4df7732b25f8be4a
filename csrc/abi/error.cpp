#include "abi/error.hpp"

#include <cstdarg>
#include <cstdio>

namespace kpx {

static std::string format_list(const char *pattern, va_list list) {
    char text[512];
    vsnprintf(text, sizeof text, pattern, list);
    return text;
}

std::string format(const char *pattern, ...) {
    va_list list;
    va_start(list, pattern);
    std::string text = format_list(pattern, list);
    va_end(list);
    return text;
}

void fail(kpx_result code, const char *pattern, ...) {
    va_list list;
    va_start(list, pattern);
    std::string text = format_list(pattern, list);
    va_end(list);
    throw Error(code, std::move(text));
}

} // namespace kpx
