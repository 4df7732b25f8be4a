package checkpoint

import (
	"strings"

	"github.com/kompute-go/kompute-go/internal/array"
)

// stored describes one dtype of the safetensors format.
type stored struct {
	bits  int         // bits of one element; some types are narrower than a byte
	dtype array.DType // the element type of this module, or 0 where it has none
}

// storedTypes are all dtypes of the format. Those without an array.DType can only be
// listed and read as raw bytes.
var storedTypes = map[string]stored{
	"F32":         {32, array.Float32},
	"F16":         {16, array.Float16},
	"BF16":        {16, array.BFloat16},
	"I32":         {32, array.Int32},
	"U32":         {32, array.Uint32},
	"BOOL":        {8, array.Bool},
	"U8":          {8, array.Uint8},
	"F64":         {64, 0},
	"I64":         {64, 0},
	"U64":         {64, 0},
	"C64":         {64, 0},
	"I16":         {16, 0},
	"U16":         {16, 0},
	"I8":          {8, 0},
	"F8_E4M3":     {8, 0},
	"F8_E5M2":     {8, 0},
	"F8_E8M0":     {8, 0},
	"F8_E4M3FNUZ": {8, 0},
	"F8_E5M2FNUZ": {8, 0},
	"F6_E2M3":     {6, 0},
	"F6_E3M2":     {6, 0},
	"F4":          {4, 0},
}

// usable are the stored types that have an array.DType.
var usable = []string{"F32", "F16", "BF16", "I32", "U32", "BOOL", "U8"}

// storedName returns the safetensors name of d, or "".
func storedName(d array.DType) string {
	for _, name := range usable {
		if storedTypes[name].dtype == d {
			return name
		}
	}
	return ""
}

// floatNames maps config.json's torch_dtype (or dtype) to an element type.
var floatNames = map[string]array.DType{
	"float32":  array.Float32,
	"float16":  array.Float16,
	"bfloat16": array.BFloat16,
}

// floatDType accepts "bfloat16" and "torch.bfloat16".
func floatDType(name string) (array.DType, bool) {
	d, ok := floatNames[strings.TrimPrefix(name, "torch.")]
	return d, ok
}
