package kompute

// opNumbers remembers the native library's number of each op that a stream has used.
type opNumbers struct {
	recent [64]numberedOp // by slot
	all    map[string]int32
}

type numberedOp struct {
	name   string
	number int32
}

// slot is where an op's number is looked up first. The length and the ends of a name tell most ops apart, and
// cost less than a map's hash: a token of a model is hundreds of ops.
func (o *opNumbers) slot(name string) *numberedOp {
	if name == "" {
		return &o.recent[0]
	}
	return &o.recent[(7*len(name)+3*int(name[0])+int(name[len(name)-1]))%len(o.recent)]
}

// find returns the number of an op, negative if n has no such op.
func (o *opNumbers) find(n native, name string) int32 {
	slot := o.slot(name)
	if slot.name == name && name != "" {
		return slot.number
	}
	number, known := o.all[name]
	if !known {
		if o.all == nil {
			o.all = make(map[string]int32)
		}
		number = n.findOp(name)
		o.all[name] = number
	}
	*slot = numberedOp{name, number}
	return number
}
