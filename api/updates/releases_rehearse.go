package updates

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsmon/api/web"
	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/object"
)

// Moves that can be rehearsed.
const (
	moveRollback = "rollback"
	movePromote  = "promote"
	moveRollout  = "rollout"
	movePause    = "pause"
	moveResume   = "resume"
)

// Wanted is a move that is to be rehearsed.
type Wanted struct {
	Move   string `json:"move"`   // rollback, promote, rollout, pause or resume
	To     string `json:"to"`     // rollback: version, empty for the release before; promote: version, empty for what From shows
	From   string `json:"from"`   // promote: the channel that shows it
	Steps  []int  `json:"steps"`  // rollout and promote: percentages; none: everybody
	Every  string `json:"every"`  // duration of each step, such as 6h
	Reason string `json:"reason"` // rollback and pause need one
}

// Rehearsal is what a move would do, or why it is refused.
type Rehearsal struct {
	// Plan is what `--dry-run --json` prints; nil if the move is refused.
	Plan     *release.Plan `json:"plan,omitempty"`
	ReachCut int           `json:"reach_cut,omitempty"` // kinds of clients of the oldest versions that are left out
	Refusal  *Refused      `json:"refusal,omitempty"`
	// Command makes the move. It is for a POSIX shell.
	Command string `json:"command"`
}

// Refused says why a move is refused, and what to do.
type Refused struct {
	Text string `json:"text"`
	Mend string `json:"mend,omitempty"`
}

// Bounds of what is wanted. A rollout has no more steps.
const (
	maxReason = 1000 // bytes
	maxSteps  = 100
)

// rehearse works a move out as the command does with --dry-run. Nothing is written.
func (s *Releases) rehearse(r *http.Request) (any, error) {
	var want Wanted
	if err := web.Decode(r, &want); err != nil {
		return nil, err
	}
	log, err := s.log(r)
	if err != nil {
		return nil, err
	}
	rollout, err := want.check()
	if err != nil {
		return nil, err
	}
	done, err := s.begin(r.Context())
	if err != nil {
		return nil, err
	}
	defer done()
	result := Rehearsal{Command: want.command(log.Channel)}
	result.Plan, err = s.plan(r.Context(), log.Channel, want, rollout)
	if refusal, ok := errors.AsType[*release.Refusal](err); ok {
		result.Plan, result.Refusal = nil, &Refused{refusal.Error(), refusal.Mend}
		return result, nil
	}
	if err != nil {
		return nil, s.judged(r, err)
	}
	result.Plan.Reach, result.ReachCut = bounded(result.Plan.Reach)
	for _, f := range result.Plan.Followers {
		f.Reach, _ = bounded(f.Reach)
	}
	return result, nil
}

// begin waits for a place among the rehearsals.
func (s *Releases) begin(ctx context.Context) (done func(), err error) {
	select {
	case s.rehearsing <- struct{}{}:
		return func() { <-s.rehearsing }, nil
	case <-ctx.Done():
		return nil, &web.Failure{Status: http.StatusServiceUnavailable, Messages: []string{"other moves are being rehearsed"}, Wait: 5 * time.Second}
	}
}

// judged turns the error of a rehearsal into an answer.
func (s *Releases) judged(r *http.Request, err error) error {
	if errors.Is(err, object.ErrUnavailable) || errors.Is(err, object.ErrNoStore) || r.Context().Err() != nil {
		return err
	}
	text := err.Error()
	why := strings.ToValidUTF8(text[:min(len(text), 500)], "")
	return &web.Failure{Status: http.StatusServiceUnavailable, Cause: err, Messages: []string{"it can't be worked out: " + why}}
}

// plan asks the publisher, which writes nothing for a dry run.
func (s *Releases) plan(ctx context.Context, channel string, w Wanted, rollout *channels.Rollout) (*release.Plan, error) {
	p := *s.Publisher
	p.Sign, p.Origin, p.Probe = nil, nil, nil
	o := release.Options{Channel: channel, Why: w.Reason, DryRun: true, Rollout: rollout}
	switch w.Move {
	case moveRollback:
		return p.Rollback(ctx, release.RollbackOptions{Options: o, To: w.To})
	case movePromote:
		return p.Promote(ctx, release.PromoteOptions{Options: o, From: w.From, Version: w.To})
	case moveRollout:
		if o.Rollout == nil {
			o.Rollout = &channels.Rollout{Steps: []int{100}}
		}
		return p.Rollout(ctx, o)
	case movePause:
		return p.Pause(ctx, o)
	}
	return p.Resume(ctx, o)
}

// check returns the rollout that is wanted, nil for everybody.
func (w *Wanted) check() (*channels.Rollout, error) {
	var problems web.Problems
	if !slices.Contains([]string{moveRollback, movePromote, moveRollout, movePause, moveResume}, w.Move) {
		problems.Add("move %.40q is none of rollback, promote, rollout, pause and resume", w.Move)
	}
	if len(w.Reason) > maxReason || strings.ContainsFunc(w.Reason, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		problems.Add("reason is one line of at most %d bytes", maxReason)
	}
	for _, word := range [][2]string{{"to", w.To}, {"from", w.From}} {
		if !plainWord.MatchString(word[1]) {
			problems.Add("%s %.40q has characters that no version and no channel has", word[0], word[1])
		}
	}
	if len(w.Steps) > maxSteps {
		problems.Add("there are %d steps, at most %d are possible", len(w.Steps), maxSteps)
	}
	if w.Move == movePromote && w.From == "" {
		problems.Add("from is missing: the channel that shows the release")
	}
	steps := w.Steps
	if w.Move != moveRollout && w.Move != movePromote {
		steps = nil
	}
	if len(steps) == 0 || len(steps) == 1 && steps[0] == 100 {
		return nil, problems.Err()
	}
	rollout := &channels.Rollout{Steps: steps}
	if w.Every != "" {
		every, err := time.ParseDuration(w.Every)
		if err != nil {
			problems.Add("every %.40q is not a duration such as 6h", w.Every)
		}
		rollout.Every = channels.Duration(every)
	}
	return rollout, problems.Err()
}

// plainWord matches what versions and names of channels consist of.
var plainWord = regexp.MustCompile(`^([0-9A-Za-z][0-9A-Za-z.+-]{0,99})?$`)

func (w *Wanted) command(channel string) string {
	words := []string{"tsmon"}
	add := func(more ...string) { words = append(words, more...) }
	switch w.Move {
	case moveRollback:
		add("release", "rollback", "--channel", channel)
		if w.To != "" {
			add("--to", w.To)
		}
	case movePromote:
		add("release", "promote", "--from", w.From, "--to", channel)
		if w.To != "" {
			add(w.To)
		}
	default:
		add("channel", w.Move, channel)
	}
	if w.Move == movePromote && len(w.Steps) > 0 || w.Move == moveRollout {
		add(w.share()...)
	}
	if w.Reason != "" {
		add("--reason", quoted(w.Reason))
	}
	return strings.Join(words, " ")
}

func (w *Wanted) share() []string {
	switch len(w.Steps) {
	case 0:
		return []string{"--percent", "100"}
	case 1:
		return []string{"--percent", strconv.Itoa(w.Steps[0])}
	}
	var steps []string
	for _, step := range w.Steps {
		steps = append(steps, strconv.Itoa(step))
	}
	flags := []string{"--steps", strings.Join(steps, ",")}
	if w.Every != "" {
		flags = append(flags, "--every", w.Every)
	}
	return flags
}

// quoted returns a text as one word of a POSIX shell.
func quoted(text string) string {
	return fmt.Sprintf("'%s'", strings.ReplaceAll(text, "'", `'\''`))
}

// Waiting are the plans of a channel that wait for approvals.
type Waiting struct {
	Plans []PlanRow `json:"plans"`
}

// PlanRow is a plan that waits.
type PlanRow struct {
	Hash    string    `json:"hash"`
	Entry   EntryRow  `json:"entry"`
	Signed  []string  `json:"signed"`
	Missing []string  `json:"missing"` // who may sign it and has not
	Has     int       `json:"has"`
	Needs   int       `json:"needs"`
	Expires time.Time `json:"expires"`
	Stale   string    `json:"stale,omitempty"` // why it can't be made any more
	Command string    `json:"command"`         // signs it, and with the last signature makes it
}

func (s *Releases) plans(r *http.Request) (any, error) {
	log, err := s.log(r)
	if err != nil {
		return nil, err
	}
	return s.answers.get(r.Context(), "plans "+log.Channel, func(ctx context.Context) (any, error) {
		all, _, err := s.Publisher.Plans().List(ctx, log.Channel)
		if err != nil {
			return nil, readable(err)
		}
		w := Waiting{Plans: []PlanRow{}}
		for _, plan := range all {
			w.Plans = append(w.Plans, PlanRow{Hash: plan.Hash, Entry: rowOf(log, plan.Entry), Signed: plan.Signed, Missing: plan.Missing, Has: plan.Has, Needs: plan.Needs,
				Expires: plan.Expires, Stale: plan.Stale, Command: "tsmon plan approve " + plan.Name() + " --channel " + log.Channel})
		}
		return w, nil
	})
}
