// Command asmgen writes the assembly of package simd. Run it with go generate
// in that package.
package main

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/mmcloughlin/avo/build"
)

// families are the files that are generated.
var families = map[string]func(){
	"codedots":    codeDotsFamily,
	"elementwise": elementwiseFamily,
	"groups":      groupsFamily,
	"gemm":        gemmFamily,
	"kernels":     kernels,
	"limbs":       limbsFamily,
	"prefetch":    prefetchFamily,
	"unpack":      unpackFamily,
}

func main() {
	family := flag.String("family", "", "which functions to write")
	flag.Parse()
	out := flag.Lookup("out").Value.String()
	stubs := flag.Lookup("stubs").Value.String()
	switch *family {
	case "neon":
		var a arm64
		neonFamily(&a)
		check(a.write(out, stubs))
		return
	case "amx":
		var a amx
		amxFamily(&a)
		check(a.write(out, stubs))
		return
	}
	ConstraintExpr("amd64")
	families[*family]()
	Generate()
	check(encodeVEX(out))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

var dot256 = regexp.MustCompile(`VPDPBUSD +(?:Y(\d+)|(\d*)\((\w+)\)), Y(\d+), Y(\d+)`)

// encodeVEX writes VPDPBUSD of 256 bits as bytes: AVX-VNNI encodes it otherwise
// than AVX-512, and Go's assembler knows only the latter.
func encodeVEX(path string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	source = dot256.ReplaceAllFunc(source, func(line []byte) []byte {
		operands := dot256.FindSubmatch(line)
		number := func(i int) int {
			n, _ := strconv.Atoi(string(operands[i])) // 0 for none
			return n
		}
		signed, unsigned, sum := number(1), number(4), number(5)
		mod, disp := byte(0xc0), []byte(nil)
		if base := string(operands[3]); base != "" {
			signed, mod = slices.Index(generalRegisters, base), 0x80
			if signed&7 == 4 {
				disp = append(disp, 0x24) // no index
			}
			disp = binary.LittleEndian.AppendUint32(disp, uint32(number(2)))
		}
		second := byte(0x02) | 0x40 | byte(^sum>>3&1)<<7 | byte(^signed>>3&1)<<5
		third := byte(^unsigned&15)<<3 | 0x04 | 0x01
		code := append([]byte{0xc4, second, third, 0x50, mod | byte(sum&7)<<3 | byte(signed&7)}, disp...)
		var text []byte
		for _, b := range code {
			text = fmt.Appendf(text, "BYTE $%#02x; ", b)
		}
		return fmt.Appendf(bytes.TrimSuffix(text, []byte("; ")), " // {vex} %s", line)
	})
	if left := regexp.MustCompile(`(?m)^\s+VPDPBUSD.*, Y\d+$`).Find(source); left != nil {
		return fmt.Errorf("%s has an operand that is not encoded", left)
	}
	return os.WriteFile(path, source, 0o644)
}

// generalRegisters are in the order of their numbers.
var generalRegisters = strings.Fields("AX CX DX BX SP BP SI DI R8 R9 R10 R11 R12 R13 R14 R15")

func kernels() {
	for _, v := range []isa{avx2, avx512} {
		dots(v, 4, v.lanes/4) // as large a tile as the registers hold
		dots(v, 2, 4)         // for two heads of queries to one of keys
		dots(v, 1, 4)
		narrowDots(v, 1, 4)
		narrowDots(v, 2, 4)
		if v.wide() { // whole heads: B is read line after line
			mulAdd(v, 2, 8, false)
			mulAdd(v, 2, 1, true)
			dotsOfHeads(v, 2, 128, floatHeads)
			for _, form := range narrowHeads {
				for _, k := range []int{64, 128} {
					dotsOfHeads(v, 2, k, form)
					mulAddOfHeads(v, 2, k, form)
				}
			}
		}
		for _, rows := range []int{4, 1} {
			dots(v, rows, 1)
			mulAdd(v, rows, 8/rows, false)
			mulAdd(v, rows, 1, true)
		}
		dequantize(v)
		decodeHeads(v)
		decodeE4M3(v)
	}
	conversions()
	exponentials()
}
