//go:build cgo && !nogpu

package kompute

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// compileGLSL makes SPIR-V of a compute shader.
func compileGLSL(t testing.TB, source string) []uint32 {
	out := filepath.Join(t.TempDir(), "shader.spv")
	cmd := exec.Command("glslc", "--target-env=vulkan1.2", "-fshader-stage=compute", "-o", out, "-")
	cmd.Stdin = strings.NewReader(source)
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
	code, err := os.ReadFile(out)
	require.NoError(t, err)
	words := make([]uint32, len(code)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(code[4*i:])
	}
	return words
}

// scaleGLSL adds to b the elements of a, times a specialization constant, plus
// a push constant.
const scaleGLSL = `#version 450
layout(local_size_x = 1) in;
layout(constant_id = 0) const float factor = 1.0;
layout(push_constant) uniform Push { float add; } push;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) buffer B { float b[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    b[i] += a[i] * factor + push.add;
}`

func openManager(t testing.TB) *Manager {
	mgr, err := NewManager("vulkan")
	require.NoError(t, err)
	t.Cleanup(func() {
		before := mgr.Device().Stats()
		_ = mgr.Close() // the test may have made a sequence fail
		require.Zero(t, before.ValidationMessages)
		require.Zero(t, before.LiveTensors)
	})
	return mgr
}

func TestSequenceOfAlgorithms(t *testing.T) {
	mgr := openManager(t)
	a, b := tensor(t, mgr.Device(), upTo(100)), tensor(t, mgr.Device(), make([]float32, 100))
	spirv := compileGLSL(t, scaleGLSL)
	forth, err := mgr.Algorithm([]AnyTensor{a, b}, spirv,
		WithSpecializationConstants(AsUint32[float32](2)...), WithPushConstants(AsUint32[float32](1)...))
	require.NoError(t, err)
	defer forth.Close()
	back, err := mgr.Algorithm([]AnyTensor{b, a}, spirv, WithWorkgroups(100, 1, 1),
		WithSpecializationConstants(AsUint32[float32](-1)...), WithPushConstants(AsUint32[float32](0)...))
	require.NoError(t, err)
	defer back.Close()

	// b += 2a + 1; b += 2a + 10; a += -b: each needs what came before.
	seq := mgr.Sequence().Record(SyncDevice(a, b)).Record(Dispatch(forth), Dispatch(forth, AsUint32[float32](10)...), Dispatch(back), SyncLocal(a, b))
	require.NoError(t, seq.Eval(bg))
	downloads := mgr.Device().Stats().Downloads
	for i, v := range read(t, b) {
		require.Equal(t, float32(4*i+11), v)
	}
	for i, v := range read(t, a) {
		require.Equal(t, float32(-3*i-11), v)
	}
	require.Equal(t, downloads, mgr.Device().Stats().Downloads, "SyncLocal brought them")

	require.NoError(t, a.Write(bg, upTo(100)))
	require.NoError(t, b.Write(bg, make([]float32, 100)))
	for range 3 {
		require.NoError(t, seq.EvalAsync())
	}
	require.NoError(t, seq.EvalAwait(bg))
	wantA, wantB := upTo(100), make([]float32, 100)
	for range 3 {
		for i := range wantA {
			wantB[i] += 2*wantA[i] + 1
			wantB[i] += 2*wantA[i] + 10
			wantA[i] -= wantB[i]
		}
	}
	require.Equal(t, wantA, read(t, a))
	require.Equal(t, wantB, read(t, b))
}

func TestAlgorithmsAndOpsShareTensors(t *testing.T) {
	mgr := openManager(t)
	s := newStream(t, mgr.Device())
	x := tensor(t, mgr.Device(), upTo(10))
	y := closing(t, run(s, "neg", x)) // on another stream than the sequence's
	z := tensor(t, mgr.Device(), make([]float32, 10))
	alg, err := mgr.Algorithm([]AnyTensor{y, z}, compileGLSL(t, scaleGLSL), WithPushConstants(0))
	require.NoError(t, err)
	require.NoError(t, mgr.Sequence().Record(Dispatch(alg)).Eval(bg))
	w := closing(t, run(s, "add", z, x))
	require.Equal(t, make([]float32, 10), read(t, w))

	require.NoError(t, alg.Close())
	require.NoError(t, alg.Close())
	seq := mgr.Sequence().Record(Dispatch(alg))
	require.ErrorIs(t, seq.Eval(bg), ErrClosed)
	require.ErrorIs(t, seq.Eval(bg), ErrClosed, "it stays")
	require.NoError(t, seq.Clear().Record(SyncDevice(x)).Eval(bg))
	require.NoError(t, seq.Close())
	require.NoError(t, seq.Close())
	require.ErrorIs(t, seq.Eval(bg), ErrClosed)
}

func TestAlgorithmRefusesBadInput(t *testing.T) {
	mgr := openManager(t)
	spirv := compileGLSL(t, scaleGLSL)
	a, b := tensor(t, mgr.Device(), upTo(6), 2, 3), tensor(t, mgr.Device(), upTo(6))
	foreign := tensor(t, openTest(t, "cpu"), upTo(6))
	for name, c := range map[string]struct {
		tensors []AnyTensor
		spirv   []uint32
		push    []uint32
		want    error
	}{
		"no SPIR-V":      {[]AnyTensor{a, b}, nil, nil, ErrInvalid},
		"not SPIR-V":     {[]AnyTensor{a, b}, []uint32{1, 2, 3, 4, 5, 6}, nil, ErrInvalid},
		"cut short":      {[]AnyTensor{a, b}, spirv[:len(spirv)/2], []uint32{0}, ErrInvalid},
		"no tensors":     {nil, spirv, []uint32{0}, ErrInvalid},
		"one tensor":     {[]AnyTensor{a}, spirv, []uint32{0}, ErrInvalid},
		"nil tensor":     {[]AnyTensor{a, nil}, spirv, []uint32{0}, ErrInvalid},
		"foreign tensor": {[]AnyTensor{a, foreign}, spirv, []uint32{0}, ErrDevice},
		"failed tensor":  {[]AnyTensor{a, a.Reshape(7)}, spirv, []uint32{0}, ErrShape},
		"too much push":  {[]AnyTensor{a, b}, spirv, make([]uint32, 10000), ErrInvalid},
	} {
		_, err := mgr.Algorithm(c.tensors, c.spirv, WithWorkgroups(1, 1, 1), WithPushConstants(c.push...))
		require.ErrorIs(t, err, c.want, name)
	}

	alg, err := mgr.Algorithm([]AnyTensor{a, b}, spirv, WithWorkgroups(1, 1, 1), WithPushConstants(0))
	require.NoError(t, err)
	defer alg.Close()
	require.ErrorIs(t, mgr.Sequence().Record(Dispatch(alg, 1, 2)).Eval(bg), ErrInvalid)
}

// Closing a device frees its algorithms: one that stayed open would keep the device open.
func TestClosingADeviceClosesItsAlgorithms(t *testing.T) {
	mgr, err := NewManager("vulkan")
	require.NoError(t, err)
	a, b := tensor(t, mgr.Device(), upTo(6)), tensor(t, mgr.Device(), upTo(6))
	alg, err := mgr.Algorithm([]AnyTensor{a, b}, compileGLSL(t, scaleGLSL), WithPushConstants(0))
	require.NoError(t, err)
	require.NoError(t, mgr.Close())
	require.Nil(t, alg.res.handle)
	require.Empty(t, mgr.Device().algorithms)
	require.NoError(t, alg.Close())
}

// What an op has made is a tensor's content, also if a concurrent call has made memory for
// the tensor meanwhile. That call may still use its memory.
func TestTheTensorThatAnOpMadeIsKept(t *testing.T) {
	d := vulkanOrSkip(t)
	b := d.backend.(*vulkanBackend)
	x, err := Empty[float32](d, 4)
	require.NoError(t, err)
	st := x.View().st
	early, err := b.handle(st)
	require.NoError(t, err)
	made, err := b.native.createTensor(st.bytes)
	require.NoError(t, err)
	d.mu.Lock()
	st.takeNative(uintptr(made))
	require.Equal(t, made, st.res.native)
	require.Equal(t, []uintptr{uintptr(early)}, st.res.replaced)
	d.mu.Unlock()
	require.NoError(t, x.Close())
	require.Empty(t, st.res.replaced)
}

// A workgroup's size may be a specialization constant.
func TestWorkgroupsBeyondTheDevice(t *testing.T) {
	mgr := openManager(t)
	spirv := compileGLSL(t, strings.Replace(scaleGLSL, "local_size_x = 1", "local_size_x_id = 1", 1))
	a, b := tensor(t, mgr.Device(), upTo(6)), tensor(t, mgr.Device(), upTo(6))
	with := func(threads uint32) error {
		alg, err := mgr.Algorithm([]AnyTensor{a, b}, spirv, WithPushConstants(0), WithSpecializationConstants(math.Float32bits(1), threads))
		if err == nil {
			err = alg.Close()
		}
		return err
	}
	require.NoError(t, with(6))
	require.ErrorIs(t, with(1<<20), ErrInvalid)
	require.ErrorIs(t, with(math.MaxUint32), ErrInvalid)
}

func TestForgottenAlgorithmsAreCollected(t *testing.T) {
	mgr := openManager(t)
	a, b := tensor(t, mgr.Device(), upTo(6)), tensor(t, mgr.Device(), upTo(6))
	spirv := compileGLSL(t, scaleGLSL)
	r := func() *algorithmResource {
		alg, err := mgr.Algorithm([]AnyTensor{a, b}, spirv, WithPushConstants(0))
		require.NoError(t, err)
		require.NoError(t, mgr.Sequence().Record(Dispatch(alg)).Eval(bg))
		return alg.res
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		r.d.mu.Lock()
		defer r.d.mu.Unlock()
		return r.handle == nil
	}, waitLimit, waitStep)
}

func TestWrappedTensorsAsInputOfAnAlgorithm(t *testing.T) {
	mgr := openManager(t)
	a, b := wrapped(t, mgr.Device(), upTo(6)), tensor(t, mgr.Device(), make([]float32, 6))
	alg, err := mgr.Algorithm([]AnyTensor{a, b}, compileGLSL(t, scaleGLSL), WithPushConstants(0))
	require.NoError(t, err)
	defer alg.Close()
	require.NoError(t, mgr.Sequence().Record(Dispatch(alg)).Eval(bg))
	require.Equal(t, upTo(6), read(t, b))
}

// lanesGLSL writes how many lanes each subgroup has, and what it says that it has.
const lanesGLSL = `#version 450
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x = 128) in;
layout(binding = 0) buffer A { uint lanes[]; };
layout(binding = 1) buffer B { uint size[]; };
void main() {
    lanes[gl_LocalInvocationIndex] = subgroupAdd(1u);
    size[gl_LocalInvocationIndex] = gl_SubgroupSize;
}`

// A kernel runs with the subgroup size that it asks for, if the device has it.
func TestSubgroupSizesOfAlgorithms(t *testing.T) {
	mgr := openManager(t)
	info := mgr.Device().Info()
	words := func(d *Device) *Tensor[uint32] {
		x, err := Zeros[uint32](d, 128)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, x.Close()) })
		return x
	}
	lanes, size := words(mgr.Device()), words(mgr.Device())
	both, spirv := []AnyTensor{lanes, size}, compileGLSL(t, lanesGLSL)
	tried := 0
	for n := uint32(1); n <= 256; n *= 2 {
		alg, err := mgr.Algorithm(both, spirv, WithWorkgroups(1, 1, 1), WithSubgroupSize(n))
		if n < uint32(info.MinSubgroupSize) || n > uint32(info.MaxSubgroupSize) {
			require.ErrorIs(t, err, ErrUnsupported, n)
			continue
		}
		require.NoError(t, err, n)
		require.NoError(t, mgr.Sequence().Record(Dispatch(alg)).Eval(bg))
		want := slices.Repeat([]uint32{n}, 128)
		for _, x := range []*Tensor[uint32]{lanes, size} {
			got, err := x.Read(bg)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		require.NoError(t, alg.Close())
		tried++
	}
	require.Positive(t, tried, "no driver that is tested on lacks this")
	_, err := mgr.Algorithm(both, spirv, WithWorkgroups(1, 1, 1), WithSubgroupSize(uint32(info.MaxSubgroupSize)*3/2))
	require.ErrorIs(t, err, ErrUnsupported)

	lesser, err := NewManager("vulkan", WithMaskedFeatures("subgroup_size"))
	require.NoError(t, err)
	defer lesser.Close()
	x := words(lesser.Device())
	_, err = lesser.Algorithm([]AnyTensor{x, x}, spirv, WithSubgroupSize(uint32(info.SubgroupSize)))
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "a shader cannot choose its subgroup size")
}
