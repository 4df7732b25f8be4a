//go:build cgo && !nogpu

package kompute

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shader returns a shader with these declarations and a body that uses what they declare.
func shader(declarations, body string) string {
	return "#version 450\nlayout(local_size_x = 1) in;\n" + declarations + "\nvoid main() { " + body + " }"
}

const outGLSL = "layout(binding = 0) buffer A { float a[]; };\n"

// Shaders that need other resources than tensors, or other constants than those given, are refused with the reason.
func TestShadersThatDoNotFit(t *testing.T) {
	mgr := openManager(t)
	x := tensor(t, mgr.Device(), upTo(8))
	for name, c := range map[string]struct {
		source     string
		push, spec []uint32
		want       string
	}{
		"image": {source: shader("layout(binding = 0, r32f) uniform image2D a;", "imageStore(a, ivec2(0), vec4(1));"),
			want: "binding 0 of the shader is not a storage buffer"},
		"sampler": {source: shader("layout(binding = 0) uniform sampler2D s; layout(binding = 1) buffer A { float a[]; };", "a[0] = texelFetch(s, ivec2(0), 0).x;"),
			want: "binding 0 of the shader is not a storage buffer"},
		"uniform block": {source: shader("layout(binding = 0) uniform U { float u; }; layout(binding = 1) buffer A { float a[]; };", "a[0] = u;"),
			want: "binding 0 of the shader is not a storage buffer"},
		"array of buffers": {source: shader("layout(binding = 0) buffer A { float a[]; } all[2];", "all[1].a[0] = 1.0;"),
			want: "binding 0 of the shader is an array"},
		"no push constants": {source: shader(outGLSL+"layout(push_constant) uniform P { uint n; float f; };", "a[n] = f;"),
			want: "the shader's push constants take 8 bytes, 0 given"},
		"too few push constants": {source: shader(outGLSL+"layout(push_constant) uniform P { float n; mat3 m; vec3 v[2]; };", "a[0] = n + m[2].z + v[1].z;"),
			push: make([]uint32, 22), want: "the shader's push constants take 92 bytes, 88 given"},
		"double": {source: shader(outGLSL+"layout(constant_id = 0) const double f = 2.0;", "a[0] = float(f);"),
			spec: []uint32{1}, want: "specialization constant 0 has 64 bits"},
		"unknown constant": {source: shader(outGLSL+"layout(constant_id = 1) const float f = 2.0;", "a[0] = f;"),
			spec: []uint32{0, 0, 0}, want: "3 specialization constants are given, the shader has 2"},
		"empty workgroup": {source: strings.Replace(shader(outGLSL, "a[0] = 1.0;"), "local_size_x = 1", "local_size_x_id = 0", 1),
			spec: []uint32{0}, want: "the shader's workgroup of 0 x 1 x 1 has no invocations"},
		"shared memory": {source: shader(outGLSL+"layout(constant_id = 0) const uint n = 1; shared vec4 s[2 * n + 1];", "s[gl_LocalInvocationIndex] = vec4(a[0]); barrier(); a[1] = s[0].x;"),
			spec: []uint32{1 << 22}, want: "the shader's shared memory of 134217744 bytes is beyond"},
	} {
		_, err := mgr.Algorithm([]AnyTensor{x, x}, compileGLSL(t, c.source), WithWorkgroups(1, 1, 1),
			WithPushConstants(c.push...), WithSpecializationConstants(c.spec...))
		require.ErrorIs(t, err, ErrInvalid, name)
		require.ErrorContains(t, err, c.want, name)
	}
}

// Push constants of exactly the shader's size, and constants that others are computed from.
func TestShadersThatFit(t *testing.T) {
	mgr := openManager(t)
	x := tensor(t, mgr.Device(), upTo(8))
	run := func(source string, push, spec []uint32) []float32 {
		alg, err := mgr.Algorithm([]AnyTensor{x}, compileGLSL(t, source), WithWorkgroups(1, 1, 1),
			WithPushConstants(push...), WithSpecializationConstants(spec...))
		require.NoError(t, err)
		defer alg.Close()
		require.NoError(t, mgr.Sequence().Record(Dispatch(alg)).Eval(bg))
		return read(t, x)
	}
	push := make([]uint32, 23)
	push[22] = math.Float32bits(7)
	require.Equal(t, float32(7), run(shader(outGLSL+"layout(push_constant) uniform P { float n; mat3 m; vec3 v[2]; };",
		"a[0] = n + m[2].z + v[1].z;"), push, nil)[0])
	require.Equal(t, float32(5), run(shader(outGLSL+"layout(constant_id = 0) const int n = 2; shared float s[n >> 1];",
		"s[1] = 5.0; barrier(); a[0] = s[1];"), nil, []uint32{4})[0])
	require.Equal(t, float32(6), run(shader("layout(binding = 0) buffer A { float a[]; } one[1]; layout(binding = 0) uniform Unused { float u; };",
		"one[0].a[0] = 6.0;"), nil, nil)[0])
	require.Equal(t, float32(4), run(shader(outGLSL+`layout(constant_id = 0) const bool more = false;
		layout(constant_id = 2) const uint n = 1;
		shared float s[more ? 2 * n : 1];`, "s[1] = more ? 4.0 : 5.0; a[0] = s[1];"), nil, []uint32{1, 0, 1})[0])
}

// An algorithm that cannot be dispatched is refused when it is made, and its tensors stay as they are.
func TestAlgorithmsThatCannotBeDispatched(t *testing.T) {
	mgr := openManager(t)
	spirv := compileGLSL(t, shader(outGLSL, "a[gl_GlobalInvocationID.x] += 1.0;"))
	small, matrix := tensor(t, mgr.Device(), upTo(6)), tensor(t, mgr.Device(), upTo(6), 2, 3)
	closed, err := New(mgr.Device(), upTo(6))
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for name, c := range map[string]struct {
		tensor  AnyTensor
		options []AlgorithmOption
		want    error
	}{
		"too many workgroups": {small, []AlgorithmOption{WithWorkgroups(1, 1, math.MaxUint32)}, ErrInvalid},
		"no workgroups":       {small, []AlgorithmOption{WithWorkgroups(0, 0, 0)}, ErrInvalid},
		"none along x":        {small, []AlgorithmOption{WithWorkgroups(0, 1, 1)}, ErrInvalid},
		"transposed":          {closing(t, matrix.Transpose()), nil, ErrInvalid},
		"offset":              {closing(t, small.Slice(0, 1, 6)), nil, ErrInvalid},
		"closed":              {closed, nil, ErrClosed},
	} {
		_, err := mgr.Algorithm([]AnyTensor{c.tensor}, spirv, c.options...)
		require.ErrorIs(t, err, c.want, name)
	}
	require.Equal(t, upTo(6), read(t, small))
	require.Equal(t, upTo(6), read(t, matrix))
}

// Only the sequence fails if a dispatch is refused: nothing has run, so every tensor stays what it was.
func TestARefusedDispatchKeepsItsTensors(t *testing.T) {
	mgr := openManager(t)
	a, b := tensor(t, mgr.Device(), upTo(6)), tensor(t, mgr.Device(), upTo(6))
	alg, err := mgr.Algorithm([]AnyTensor{a, b}, compileGLSL(t, scaleGLSL), WithPushConstants(0))
	require.NoError(t, err)
	require.NoError(t, alg.Close())
	require.ErrorIs(t, mgr.Sequence().Record(Dispatch(alg)).Eval(bg), ErrClosed)
	require.Equal(t, upTo(6), read(t, a))
	require.Equal(t, upTo(6), read(t, b))

	again, err := mgr.Algorithm([]AnyTensor{a, b}, compileGLSL(t, scaleGLSL), WithPushConstants(0))
	require.NoError(t, err)
	defer again.Close()
	require.NoError(t, b.Close())
	require.ErrorIs(t, mgr.Sequence().Record(Dispatch(again)).Eval(bg), ErrClosed)
	require.Equal(t, upTo(6), read(t, a))
}

// Wrapped memory must be readonly in the shader.
func TestWrappedTensorsThatAShaderMayWrite(t *testing.T) {
	mgr := openManager(t)
	a, b := wrapped(t, mgr.Device(), upTo(6)), tensor(t, mgr.Device(), make([]float32, 6))
	spirv := compileGLSL(t, scaleGLSL)
	_, err := mgr.Algorithm([]AnyTensor{b, a}, spirv, WithPushConstants(0))
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "wrapped memory is read-only, and the shader may write binding 1")
	alg, err := mgr.Algorithm([]AnyTensor{a, b}, spirv, WithPushConstants(0))
	require.NoError(t, err)
	defer alg.Close()
	require.Equal(t, []Access{AccessRead, AccessReadWrite}, []Access{alg.args[0].Access, alg.args[1].Access})
}

// The host's and the device's time of an algorithm count under one name.
func TestTimesOfAnAlgorithmHaveOneName(t *testing.T) {
	mgr := openManager(t)
	a, b := tensor(t, mgr.Device(), upTo(6)), tensor(t, mgr.Device(), upTo(6))
	alg, err := mgr.Algorithm([]AnyTensor{a, b}, compileGLSL(t, scaleGLSL), WithPushConstants(0))
	require.NoError(t, err)
	defer alg.Close()
	q := mgr.Sequence()
	require.NoError(t, q.stream.StartTiming())
	require.NoError(t, q.Record(Dispatch(alg)).Eval(bg))
	times := q.stream.Stats().OpTimes
	delete(times, "transfer")
	require.Len(t, times, 1)
	require.Positive(t, times["custom"].Host)
	require.Positive(t, times["custom"].Time)
}

// A GPU that refuses the options is no reason to run on the CPU.
func TestAutoReportsWrongOptions(t *testing.T) {
	list, err := vulkanDevices()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		option Option
		want   error
	}{
		"disabled": {WithDisabled("no_such_kernel"), ErrInvalid},
		"masked":   {WithMaskedFeatures("no_such_feature"), ErrInvalid},
		"feature":  {WithFeatures("no_such_feature"), ErrInvalid},
	} {
		o := makeOptions([]Option{c.option})
		_, err := openFirst("GPU", list, o) // as if a CPU driver were a GPU
		require.ErrorIs(t, err, c.want, name)
		require.False(t, o.allowCPU(err), name)
	}
	o := makeOptions([]Option{WithFeatures("float64"), WithMaskedFeatures("float64")})
	_, err = openFirst("GPU", list, o)
	require.ErrorIs(t, err, ErrUnsupported)
	require.False(t, o.allowCPU(err))
	_, err = openFirst("GPU", nil, o)
	require.True(t, o.allowCPU(err), "there is no GPU")
	require.False(t, o.allowCPU(ErrLibrary))
}
