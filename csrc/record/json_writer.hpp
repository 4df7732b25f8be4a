// Writes one JSON value into a string. The writer adds brackets, commas, quotes
// and escapes, so the result is well formed whatever names it contains.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace kpx {

class JsonWriter {
  public:
    // An object. body writes its members: key(), then one value.
    template <typename Body> void object(Body &&body) { between('{', '}', body); }
    // An array. body writes its elements.
    template <typename Body> void array(Body &&body) { between('[', ']', body); }
    JsonWriter &key(std::string_view name);
    void value(std::string_view text);
    template <typename T> std::enable_if_t<std::is_integral_v<T>> value(T number) {
        separate();
        if constexpr (std::is_same_v<T, bool>) {
            out_ += number ? "true" : "false";
        } else {
            out_ += std::to_string(number);
        }
    }
    void value(const char *text) { value(std::string_view(text)); }
    // An array of numbers.
    template <typename T> void values(const T *first, size_t n) {
        array([&] {
            for (size_t i = 0; i < n; i++) {
                value(first[i]);
            }
        });
    }

    const std::string &text() const { return out_; }

  private:
    template <typename Body> void between(char open, char close, Body &&body) {
        separate();
        out_ += open;
        first_ = true;
        body();
        out_ += close;
        first_ = false;
    }
    void separate(); // writes a comma if an element precedes
    void quote(std::string_view text);

    std::string out_;
    bool first_ = true; // the next value is the first of its object or array
};

} // namespace kpx
