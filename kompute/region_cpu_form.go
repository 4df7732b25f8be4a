package kompute

import (
	"fmt"
	"unsafe"

	"github.com/kompute-go/kompute-go/internal/opdef"
)

// opForm is how many operands, absent ones included, and bytes of parameters an op has.
type opForm struct{ operands, params int }

func formOf[P any](op opdef.Op) opForm {
	var params P
	return opForm{len(op.Operands), int(unsafe.Sizeof(params))}
}

// loopForms are the forms of the ops that a region runs as loops of package fallback
// instead of by Op.CPU (see fallback.StagesOf). The loops look for each operand in its
// place.
var loopForms = map[string]opForm{
	opdef.AttentionProjection.Name: formOf[opdef.AttentionProjectionParams](opdef.AttentionProjection.Op),
	opdef.AttentionStep.Name:       formOf[opdef.AttentionStepParams](opdef.AttentionStep.Op),
	opdef.PagedHeads.Name:          formOf[opdef.PagedHeadsParams](opdef.PagedHeads.Op),
	opdef.PagedSDPA.Name:           formOf[opdef.PagedSDPAParams](opdef.PagedSDPA.Op),
	opdef.PagedStep.Name:           formOf[opdef.PagedStepParams](opdef.PagedStep.Op),
	opdef.Projection.Name:          formOf[opdef.ProjectionParams](opdef.Projection.Op),
	opdef.QuantizedGather.Name:     formOf[opdef.QuantizedGatherParams](opdef.QuantizedGather.Op),
	opdef.QuantizedMatMul.Name:     formOf[opdef.QuantizedMatMulParams](opdef.QuantizedMatMul.Op),
}

// checkForm returns ErrInvalid for an op that a region would run as loops, if its
// operands or parameters differ in number from what the loops expect.
func (op *Op) checkForm() error {
	form, found := loopForms[op.Name]
	if !found || len(op.Args) == form.operands && len(op.Params) == form.params {
		return nil
	}
	reason := fmt.Sprintf("%d operands and %d bytes of parameters given, %d and %d needed", len(op.Args), len(op.Params), form.operands, form.params)
	return opError(op, reason, ErrInvalid)
}
