package main

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far a command is with its bundles: a bar on a terminal, else a
// line for each step and each bundle that is done.
type progress struct {
	app   *app
	verb  string // what a transfer does to a bundle
	mu    sync.Mutex
	seen  map[string]int64 // bytes by verb and bundle
	total int64
	bar   *progressbar.ProgressBar // nil: lines
}

func (a *app) newProgress(verb string) *progress {
	p := &progress{app: a, verb: verb, seen: map[string]int64{}}
	if !a.quiet && isTerminal(a.stderr) {
		p.bar = progressbar.NewOptions64(1,
			progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowBytes(true), progressbar.OptionFullWidth(),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	return p
}

func isTerminal(w io.Writer) bool {
	if plain, ok := w.(plainWriter); ok {
		w = plain.Writer
	}
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// step announces a part of the work.
func (p *progress) step(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.app.quiet:
	case p.bar != nil:
		p.bar.Describe(text)
	default:
		p.app.say("%s", text)
	}
}

// transferred counts n more bytes of a bundle that is read.
func (p *progress) transferred(bundle string, n int, total int64) {
	p.count(p.verb+" "+bundle, n, total)
}

// uploaded counts n more bytes of a bundle that is sent.
func (p *progress) uploaded(bundle string, n int, total int64) {
	p.count("uploaded "+bundle, n, total)
}

func (p *progress) count(what string, n int, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.seen[what]; !known {
		p.total += total
		if p.bar != nil {
			p.bar.ChangeMax64(p.total)
		}
	}
	before := p.seen[what]
	p.seen[what] += int64(n)
	switch {
	case p.app.quiet:
	case p.bar != nil:
		_ = p.bar.Add(n) // only the drawing can fail
	case before < total && p.seen[what] >= total:
		p.app.say("%s (%s)", what, bytesText(total))
	}
}

// done removes the bar.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish() // only the drawing can fail
	}
}
