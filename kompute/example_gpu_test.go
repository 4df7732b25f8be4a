//go:build cgo && !nogpu

package kompute_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os/exec"
	"strings"

	"github.com/kompute-go/kompute-go/kompute"
)

// multiplyGLSL is the kernel of the example. A program would compile it when it
// is built, and embed the result.
const multiplyGLSL = `#version 450
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer C { float c[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    c[i] = a[i] * b[i];
}`

func ExampleManager() {
	mgr, err := kompute.NewManager("vulkan")
	if err != nil {
		log.Fatal(err)
	}
	defer mgr.Close()

	a, _ := kompute.New(mgr.Device(), []float32{2, 4, 6})
	b, _ := kompute.New(mgr.Device(), []float32{0, 1, 2})
	c, err := kompute.Zeros[float32](mgr.Device(), 3)
	if err != nil {
		log.Fatal(err)
	}
	tensors := []kompute.AnyTensor{a, b, c}
	alg, err := mgr.Algorithm(tensors, compile(multiplyGLSL))
	if err != nil {
		log.Fatal(err)
	}
	err = mgr.Sequence().
		Record(kompute.SyncDevice(tensors...), kompute.Dispatch(alg), kompute.SyncLocal(c)).
		Eval(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	product, err := c.Read(context.Background())
	fmt.Println(product, err)
	// Output: [0 4 12] <nil>
}

// compile makes SPIR-V with glslc.
func compile(glsl string) []uint32 {
	cmd := exec.Command("glslc", "-fshader-stage=compute", "-o", "-", "-")
	cmd.Stdin = strings.NewReader(glsl)
	code, err := cmd.Output()
	if err != nil {
		log.Fatal(err)
	}
	words := make([]uint32, len(code)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(code[4*i:])
	}
	return words
}
