package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

func prefetchFamily() {
	prefetch("prefetchLines", "second", PREFETCHT1)
	prefetch("prefetchNearLines", "nearest", PREFETCHT0)
}

// prefetch writes a function that prefetches lines of 64 bytes.
func prefetch(name, cache string, line func(Op)) {
	text("prefetches count lines of 64 bytes into the "+cache+" cache.", "%s", name)("(from *byte, count int)")
	from, count := arg("from"), arg("count")
	Label("loop")
	line(Mem{Base: from})
	ADDQ(U8(64), from)
	DECQ(count)
	JNZ(LabelRef("loop"))
	RET()
}
