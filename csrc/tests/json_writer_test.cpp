#include "record/json_writer.hpp"
#include "test.hpp"

TEST(json_is_well_formed) {
    kpx::JsonWriter json;
    json.object([&] {
        json.key("empty").array([] {});
        json.key("list").array([&] {
            json.value(-1);
            json.value(uint64_t(1) << 40);
            json.value(true);
            json.object([] {});
            json.object([&] { json.key("a\"b").value("back\\slash\n\x1f"); });
        });
        const int64_t shape[] = {2, 3};
        json.key("shape").values(shape, 2);
        json.key("last").value("");
    });
    CHECK(json.text() == R"({"empty":[],"list":[-1,1099511627776,true,{},{"a\"b":"back\\slash\u000a\u001f"}],)"
                         R"("shape":[2,3],"last":""})");
}
