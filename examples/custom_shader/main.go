// Command custom_shader runs a GLSL shader of its own on a Vulkan device: two
// algorithms of the same shader, the second working on what the first writes.
// The program needs no barriers; the sequence inserts them.
//
// The shader is compiled by glslc when the program starts.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/kompute"
)

//go:embed scale.comp
var scaleSource []byte

// workgroupSize is the number of elements that one workgroup of the shader computes.
const workgroupSize = 64

func main() {
	cli.Main(cli.NewFlags("custom_shader", "Runs a GLSL shader of its own on a Vulkan device."),
		func(ctx context.Context) error { return run(ctx, os.Stdout) })
}

// run computes y = 3x and z = y/2 + 1, and prints some of z.
func run(ctx context.Context, out io.Writer) error {
	spirv, err := compile(ctx, scaleSource)
	if err != nil {
		return err
	}
	mgr, err := kompute.NewManager("vulkan")
	if err != nil {
		return err
	}
	defer mgr.Close()

	const n = 1000
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i)
	}
	x, err := kompute.New(mgr.Device(), data)
	if err != nil {
		return err
	}
	y, err := kompute.Zeros[float32](mgr.Device(), n)
	if err != nil {
		return err
	}
	z, err := kompute.Zeros[float32](mgr.Device(), n)
	if err != nil {
		return err
	}
	first, err := scale(mgr, spirv, x, y, 3, 0)
	if err != nil {
		return err
	}
	second, err := scale(mgr, spirv, y, z, 0.5, 1)
	if err != nil {
		return err
	}
	sequence := mgr.Sequence().Record(
		kompute.SyncDevice(x),
		kompute.Dispatch(first),
		kompute.Dispatch(second),
		kompute.SyncLocal(z),
	)
	if err := sequence.Eval(ctx); err != nil {
		return err
	}
	result, err := z.Read(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, mgr.Device().Info().Name, result[:4], "...", result[n-1])
	return err
}

// scale makes the algorithm to = factor*from + bias. The workgroup size is
// specialization constant 0; factor and bias are push constants.
func scale(mgr *kompute.Manager, spirv []uint32, from, to *kompute.Tensor[float32], factor, bias float32) (*kompute.Algorithm, error) {
	groups := uint32((from.Size() + workgroupSize - 1) / workgroupSize)
	return mgr.Algorithm([]kompute.AnyTensor{from, to}, spirv, kompute.WithWorkgroups(groups, 1, 1),
		kompute.WithSpecializationConstants(workgroupSize), kompute.WithPushConstants(kompute.AsUint32(factor, bias)...))
}

// compile turns GLSL into SPIR-V with glslc, which Debian has in the package of
// that name.
func compile(ctx context.Context, source []byte) ([]uint32, error) {
	cmd := exec.CommandContext(ctx, "glslc", "-fshader-stage=compute", "--target-env=vulkan1.2", "-o", "-", "-")
	cmd.Stdin = bytes.NewReader(source)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	code, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("the shader compiler glslc is not installed (Debian: apt-get install glslc): %w", err)
	case err != nil:
		return nil, fmt.Errorf("glslc: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	words := make([]uint32, len(code)/4)
	return words, binary.Read(bytes.NewReader(code), binary.LittleEndian, words)
}
