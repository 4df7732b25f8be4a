package main

import (
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() { register.Function1x1(bytesOf) }

// bytesOf makes bytes of a line. Runners may decode strings, and would replace what is not
// UTF-8.
func bytesOf(line string) []byte { return []byte(line) }

// pipeline reads lines, spreads them over the workers, answers them, writes answers and
// failures, and publishes the files when all are whole. The groups before writing keep
// answers: a writer that fails is repeated, and the model is not asked again.
func (o *options) pipeline() *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	lines := beam.Reshuffle(s, beam.ParDo(s, bytesOf, textio.Read(s, o.input)))
	answers, failures := beam.ParDo2(s.Scope("answer"), &answerFn{Settings: o.work}, lines)
	count(s.Scope("count"), answers, failures)
	out := o.outputs()
	publish(s.Scope("publish"), &publishFn{Outputs: out, Overwrite: o.overwrite},
		write(s.Scope("answers"), out[0], answers), write(s.Scope("failures"), out[1], failures))
	return p
}

// namespace is that of the pipeline's metrics, which the runner shows.
const namespace = "batch"

var (
	answered        = beam.NewCounter(namespace, "answered")
	failed          = beam.NewCounter(namespace, "failed")
	promptTokens    = beam.NewCounter(namespace, "prompt_tokens")
	generatedTokens = beam.NewCounter(namespace, "generated_tokens")
	milliseconds    = beam.NewDistribution(namespace, "milliseconds") // from when a worker begins a line to its answer
)
