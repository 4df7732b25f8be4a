package ops_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/kompute-go/kompute-go/kompute"
	"github.com/kompute-go/kompute-go/ops"
)

// open returns a stream of the CPU device; any other device works the same way.
func open() (*kompute.Device, *kompute.Stream) {
	dev, err := kompute.Open("cpu")
	if err != nil {
		panic(err)
	}
	s, err := dev.NewStream()
	if err != nil {
		panic(err)
	}
	return dev, s
}

func tensor[T kompute.Element](dev *kompute.Device, data []T, shape ...int) *kompute.Tensor[T] {
	t, err := kompute.New(dev, data, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

func print[T kompute.Element](t *kompute.Tensor[T]) {
	data, err := t.Read(context.Background())
	fmt.Println(t.Shape(), data, err)
}

func ExampleAdd() {
	dev, s := open()
	defer dev.Close()
	rows := tensor(dev, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	bias := tensor(dev, []float32{10, 20, 30}, 3)
	print(ops.Add(s, rows, bias))
	print(ops.Mul(s, rows, ops.Scalar(s, float32(0.5))))
	// Output:
	// [2 3] [11 22 33 14 25 36] <nil>
	// [2 3] [0.5 1 1.5 2 2.5 3] <nil>
}

// An op with invalid operands poisons its stream: all later results have its error.
func ExampleMatMul_error() {
	dev, s := open()
	defer dev.Close()
	a := tensor(dev, make([]float32, 6), 2, 3)
	b := tensor(dev, make([]float32, 8), 4, 2)
	_, err := ops.Softmax(s, ops.MatMul(s, a, b)).Read(context.Background())
	fmt.Println(err)
	fmt.Println(errors.Is(err, kompute.ErrShape))
	// Output:
	// matmul float32[2 3], float32[4 2]: rows of a have 3 elements, columns of b 4: shapes do not fit
	// true
}

func ExampleMatMul() {
	dev, s := open()
	defer dev.Close()
	a := tensor(dev, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	print(ops.MatMul(s, a, a.Transpose()))
	// Output: [2 2] [14 32 32 77] <nil>
}

func ExampleGather() {
	dev, s := open()
	defer dev.Close()
	table := tensor(dev, []float32{0, 0, 1, 10, 2, 20, 3, 30}, 4, 2)
	ids := tensor(dev, []int32{3, 1, -1})
	print(ops.Gather(s, table, ids, 0))
	// Output: [3 2] [3 30 1 10 3 30] <nil>
}

func ExampleArgMax() {
	dev, s := open()
	defer dev.Close()
	x := tensor(dev, []float32{1, 5, 5, 7, 0, 2}, 2, 3)
	print(ops.ArgMax(s, x, -1))
	print(ops.ArgMax(s, x, 0))
	// Output:
	// [2] [1 0] <nil>
	// [3] [1 0 0] <nil>
}

func ExampleSum() {
	dev, s := open()
	defer dev.Close()
	x := tensor(dev, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	print(ops.Sum(s, x))
	print(ops.Sum(s, x, ops.Axes(0)))
	print(ops.Sum(s, x, ops.Axes(1), ops.KeepDims()))
	// Output:
	// [] [21] <nil>
	// [3] [5 7 9] <nil>
	// [2 1] [6 15] <nil>
}

func ExampleDequantize() {
	dev, s := open()
	defer dev.Close()
	// 32 codes of 4 bits in one group: 0, 1, 2, … 7 in each word.
	w := tensor(dev, []uint32{0x76543210, 0x76543210, 0x76543210, 0x76543210}, 1, 4)
	scales, biases := tensor(dev, []float32{-0.5}, 1, 1), tensor(dev, []float32{1}, 1, 1)
	x := ops.Dequantize[float32](s, w, scales, biases, ops.Quantization{GroupSize: 32, Bits: 4})
	print(x.Slice(1, 0, 8))
	// Output: [1 8] [1 0.5 0 -0.5 -1 -1.5 -2 -2.5] <nil>
}

func ExampleQuantize() {
	dev, s := open()
	defer dev.Close()
	values := make([]float32, 32)
	copy(values, []float32{12, -5, 2.4, 0.9, -1})
	w, scales, _ := ops.Quantize[uint8](s, tensor(dev, values, 1, 32), ops.MXFP4)
	print(scales) // 2^(128-127)
	print(ops.Dequantize[float32](s, w, scales, nil, ops.MXFP4).Slice(1, 0, 5))
	// Output:
	// [1 1] [128] <nil>
	// [1 5] [12 -4 2 1 -1] <nil>
}

// A cache has room for more keys than there are; SliceUpdate appends to it, and
// attention reads the used part.
func ExampleSliceUpdate() {
	dev, s := open()
	defer dev.Close()
	cache, err := kompute.Zeros[float32](dev, 1, 1, 4, 2)
	if err != nil {
		panic(err)
	}
	for t := range 3 {
		k := tensor(dev, []float32{float32(t), 1}, 1, 1, 1, 2)
		ops.SliceUpdate(s, cache, k, ops.At(0), ops.At(0), ops.At(t), ops.At(0))
	}
	used := cache.Slice(2, 0, 3)
	print(used)
	print(ops.SDPA(s, tensor(dev, []float32{0, 1}, 1, 1, 1, 2), used, used, ops.SDPAParams[float32]{}))
	// Output:
	// [1 1 3 2] [0 1 1 1 2 1] <nil>
	// [1 1 1 2] [1 1] <nil>
}

func ExampleRMSNorm() {
	dev, s := open()
	defer dev.Close()
	x := tensor(dev, []float32{3, 4, 30, 40}, 2, 2)
	y, err := ops.RMSNorm(s, x, nil, 0).Read(context.Background())
	fmt.Printf("%.3f %v\n", y, err)
	// Output: [0.849 1.131 0.849 1.131] <nil>
}

func ExampleCast() {
	dev, s := open()
	defer dev.Close()
	x := tensor(dev, []float32{-1.5, 0, 2.75, 1e10})
	print(ops.Cast[int32](s, x))
	print(ops.Greater(s, x, ops.ScalarLike(s, x, 1)))
	// Output:
	// [4] [-1 0 2 2147483647] <nil>
	// [4] [false false true true] <nil>
}
