#include "record/json_writer.hpp"

namespace kpx {

void JsonWriter::separate() {
    if (!first_) {
        out_ += ',';
    }
    first_ = false;
}

JsonWriter &JsonWriter::key(std::string_view name) {
    separate();
    quote(name);
    out_ += ':';
    first_ = true; // its value needs no comma
    return *this;
}

void JsonWriter::value(std::string_view text) {
    separate();
    quote(text);
}

void JsonWriter::quote(std::string_view text) {
    static const char digits[] = "0123456789abcdef";
    out_ += '"';
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out_ += '\\';
            out_ += c;
        } else if (byte < 0x20) {
            out_ += "\\u00";
            out_ += digits[byte >> 4];
            out_ += digits[byte & 15];
        } else {
            out_ += c;
        }
    }
    out_ += '"';
}

} // namespace kpx
