package jinja

// node is a statement; line is where it starts.
type node struct {
	line int
	statement
}

// statement is the action of a node.
type statement interface {
	execute(r *render) error
}

type (
	textStatement   struct{ text string }
	outputStatement struct{ value expression }
	ifStatement     struct {
		branches []branch // the last one may have no condition
	}
	branch struct {
		condition expression // nil: else
		body      []node
	}
	forStatement struct {
		target    target
		items     expression
		filter    expression // nil: none
		body      []node
		otherwise []node
		recursive bool
	}
	setStatement struct {
		target target
		value  expression
	}
	setBlock struct {
		target  target
		filters expression // of a placeholder, or nil
		body    []node
	}
	macroStatement struct{ macro *macro }
	callStatement  struct {
		caller *macro
		call   *callExpression
	}
	filterStatement struct {
		filters expression // of a placeholder
		body    []node
	}
	withStatement struct {
		names  []target
		values []expression
		body   []node
	}
	groupStatement struct{ body []node } // generation
	jumpStatement  struct{ jump error }  // break and continue
)

// macro is the definition of one.
type macro struct {
	name       string
	parameters []parameter
	body       []node
	// uses tells which of caller, varargs and kwargs the body names; only these
	// are accepted.
	uses   map[string]bool
	ofCall bool // it is the body of a call block
}

type parameter struct {
	name  string
	value expression // nil: none
}

// target is what an assignment assigns to: a name, an attribute of a namespace, or
// several of these.
type target struct {
	name      string
	attribute string
	several   []target
}

// expression is anything that has a value.
type expression interface {
	evaluate(r *render) (Value, error)
}

type (
	literal        struct{ value Value }
	nameExpression struct{ name string }
	listExpression struct {
		items []expression
		tuple bool
	}
	dictExpression struct{ keys, values []expression }
	attribute      struct {
		of   expression
		name string
	}
	subscript struct{ of, key expression }
	slicing   struct {
		of                expression
		start, stop, step expression // or nil
	}
	unary struct {
		operator string
		operand  expression
	}
	binary struct {
		operator    string
		left, right expression
	}
	comparison struct {
		first     expression
		operators []string
		operands  []expression
	}
	conditional struct {
		condition, yes expression
		no             expression // or nil
	}
	callExpression struct {
		callee expression
		arguments
	}
	filterExpression struct {
		of   expression
		name string
		call builtin
		arguments
	}
	testExpression struct {
		of   expression
		name string
		call test
		arguments
		negated bool
	}
	placeholder struct{} // the output of a filter block
)

// arguments are those of a call.
type arguments struct {
	positional []expression
	named      []parameter
	spread     expression // *args, or nil
	spreadDict expression // **kwargs, or nil
}
