#include "textflag.h"

// func prefetchLinesToWrite(from *byte, count int)
TEXT ·prefetchLinesToWrite(SB), NOSPLIT, $0-16
	MOVQ from+0(FP), AX
	MOVQ count+8(FP), CX

loop:
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (AX), which the assembler lacks
	ADDQ $64, AX
	DECQ CX
	JNZ  loop
	RET
