package optest

import (
	"math"

	"github.com/kompute-go/kompute-go/ops"
)

// reduceFormulas are the kinds in float64, on rows that may be empty.
var reduceFormulas = map[string]func(row []float64) float64{
	"sum": sum,
	"prod": func(row []float64) float64 {
		p := 1.0
		for _, v := range row {
			p *= v
		}
		return p
	},
	"mean":        func(row []float64) float64 { return sum(row) / float64(len(row)) },
	"amax":        func(row []float64) float64 { return row[extreme(row, 1)] },
	"amin":        func(row []float64) float64 { return row[extreme(row, -1)] },
	"arg_max":     func(row []float64) float64 { return float64(extreme(row, 1)) },
	"arg_min":     func(row []float64) float64 { return float64(extreme(row, -1)) },
	"greedy":      greedy,
	"all":         func(row []float64) float64 { return truth(trues(row) == len(row)) },
	"any":         func(row []float64) float64 { return truth(trues(row) > 0) },
	"log_sum_exp": logSumExp,
}

func sum(row []float64) float64 {
	s := 0.0
	for _, v := range row {
		s += v
	}
	return s
}

func trues(row []float64) (n int) {
	for _, v := range row {
		if v != 0 {
			n++
		}
	}
	return n
}

// extreme returns where the largest element is, or with sign -1 the smallest.
func extreme(row []float64, sign float64) int {
	best := 0
	for i, v := range row {
		if sign*v > sign*row[best] || math.IsNaN(v) && !math.IsNaN(row[best]) {
			best = i
		}
	}
	return best
}

// greedy returns where the largest element is, or NoToken if that is no finite number.
func greedy(row []float64) float64 {
	at := extreme(row, 1)
	if math.IsNaN(row[at]) || math.IsInf(row[at], 0) {
		return ops.NoToken
	}
	return float64(at)
}

func logSumExp(row []float64) float64 {
	top := row[extreme(row, 1)]
	if math.IsInf(top, 0) {
		return top
	}
	s := 0.0
	for _, v := range row {
		s += math.Exp(v - top)
	}
	return top + math.Log(s)
}
