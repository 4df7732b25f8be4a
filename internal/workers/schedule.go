package workers

import "runtime"

// Schedule consists of steps that are run one after another, by workers that
// stay from the first to the last.
type Schedule struct{ job *job }

// NewSchedule returns a schedule. It keeps the steps.
func NewSchedule(steps []Step) *Schedule {
	var cut []step
	for _, one := range steps {
		if s := newStep(one); len(s.parts) > 0 {
			cut = append(cut, s)
		}
	}
	s := &Schedule{}
	if len(cut) > 0 {
		s.job = newJob(cut, 2*max(runtime.NumCPU(), runtime.GOMAXPROCS(0)))
		s.job.long = true
	}
	return s
}

// Run runs all steps that many times in a row, and returns when they are done or
// one has failed, after which no later one begins. A panic of a part is a failure,
// a *PanicError. Only one Run of a schedule may be active at a time.
//
// It allocates nothing, unless workers must be started.
func (s *Schedule) Run(times int) error { return s.RunWatched(times, nil) }

// RunWatched is Run. Before each of the runs, while no part is running, a worker
// calls begin, unless it is nil, with the number of runs that are done.
func (s *Schedule) RunWatched(times int, begin func(run int)) error {
	if s.job == nil || times <= 0 {
		return nil
	}
	return s.job.run(times, begin)
}

// Threads returns how many workers would run the schedule now, the caller
// included.
func (s *Schedule) Threads() int {
	if s.job == nil {
		return 1
	}
	return min(threadsFor(s.job), len(s.job.slots))
}

// MostWorkers is larger than the Worker of any Context.
func (s *Schedule) MostWorkers() int {
	if s.job == nil {
		return 1
	}
	return len(s.job.slots)
}
