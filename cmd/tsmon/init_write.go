package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tsmon/cmd/tsmon/scaffold"
)

// compare lists what keeps clients from their updates, and what is left to do.
func (p *initPlan) compare(_ context.Context, env initEnv) error {
	r := p.report
	r.Findings = append(r.Findings, p.project.Check(p.config.PublicURL, p.channels())...)
	if len(p.keys) > 1 {
		env.app.say("warning: the platforms of %s have different updater keys; all are trusted", p.project.File)
	}
	bucket := strings.HasPrefix(p.config.Storage, "s3:")
	if p.ci != "" && !bucket {
		env.app.say("warning: storage is a directory; the workflow works only where all its machines share it")
	}
	secrets := "TAURI_SIGNING_PRIVATE_KEY and TAURI_SIGNING_PRIVATE_KEY_PASSWORD"
	if bucket {
		secrets = "TAURI_SIGNING_PRIVATE_KEY, TAURI_SIGNING_PRIVATE_KEY_PASSWORD, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	}
	version := r.Version
	if version == "" {
		version = "1.0.0"
	}
	switch p.ci {
	case scaffold.GitHub:
		r.Next = append(r.Next, "add the secrets "+secrets+" to an environment named release (Settings, Environments)",
			"add the variables TSMON_DOWNLOADS and TSMON_CHECKSUMS (Settings, Secrets and variables, Actions)",
			"commit the files; pushing the tag v"+version+" releases that version")
	case scaffold.GitLab:
		r.Next = append(r.Next, "add the variables "+secrets+", protected, masked, for the environment release (Settings, CI/CD)",
			"add the variables TSMON_DOWNLOADS and TSMON_CHECKSUMS there, and protect the tags v*",
			"commit the files; pushing the tag v"+version+" releases that version")
	default:
		bundles := filepath.ToSlash(filepath.Join(p.project.Dir(), "target/release/bundle"))
		r.Next = append(r.Next, "after `tauri build`: tsmon release publish --version "+version+" "+bundles)
	}
	return nil
}

// write writes all files, or none if one is in the way.
func (p *initPlan) write(_ context.Context, env initEnv) error {
	var changed []scaffold.File
	var replaced []string
	for _, f := range p.files {
		action, err := p.action(f)
		if err != nil {
			return err
		}
		shown := initFile{Path: f.Path, Action: action}
		if p.dryRun {
			shown.Content = string(f.Content)
		}
		p.report.Files = append(p.report.Files, shown)
		if action != actionKeep {
			changed = append(changed, f)
		}
		if action == actionReplace {
			replaced = append(replaced, f.Path)
		}
	}
	if p.dryRun {
		return nil
	}
	if err := p.consent(env, replaced); err != nil {
		return err
	}
	for _, f := range changed {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return err
		}
		if err := writeFile(f.Path, 0o644, f.Content); err != nil {
			return err
		}
	}
	return nil
}

// action compares a file with what is there.
func (p *initPlan) action(f scaffold.File) (string, error) {
	before, err := os.ReadFile(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return actionCreate, nil
	case err != nil:
		return "", err
	case bytes.Equal(before, f.Content):
		return actionKeep, nil
	}
	return actionReplace, nil
}

// consent wants --force, or a person's yes, before files are replaced.
func (p *initPlan) consent(env initEnv, replaced []string) error {
	if len(replaced) == 0 || p.force {
		return nil
	}
	names := strings.Join(replaced, ", ")
	if env.ask != nil {
		answer, err := env.ask("Replace " + names + "? [y/N] ")
		if err != nil {
			return err
		}
		if strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes") {
			return nil
		}
	}
	return &hinted{&refused{fmt.Errorf("%s would be replaced; nothing was written", names)}, "--dry-run shows the new content, --force replaces"}
}

// printInit writes a report for people.
func printInit(w io.Writer, r *initReport) {
	fmt.Fprintf(w, "%s: %s\n", r.Project, strings.Join(strings.Fields(r.Name+" "+r.Version+" "+r.Identifier), " "))
	fmt.Fprintf(w, "trusted key: %s\n", strings.Join(r.KeyIDs, ", "))
	if len(r.Targets) > 0 {
		fmt.Fprintf(w, "required targets: %s\n", strings.Join(r.Targets, ", "))
	}
	verbs := map[string]string{actionCreate: "wrote", actionReplace: "replaced", actionKeep: "kept"}
	for _, f := range r.Files {
		if r.DryRun && f.Content != "" {
			fmt.Fprintf(w, "\n--- %s (%s)\n%s", f.Path, f.Action, f.Content)
			continue
		}
		fmt.Fprintf(w, "%s %s\n", verbs[f.Action], f.Path)
	}
	if len(r.Findings) > 0 {
		fmt.Fprintln(w, "\nBefore clients can update:")
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "- %s, %s: %s\n", f.File, f.Member, oneLine(f.Problem))
		if f.Write != "" {
			fmt.Fprintf(w, "  write: %s\n", f.Write)
		}
	}
	fmt.Fprintln(w, "\nNext:")
	for _, step := range r.Next {
		fmt.Fprintf(w, "- %s\n", step)
	}
}

// ask writes a question and returns the line that answers it, without spaces
// around it. An interrupt ends the wait.
func ask(ctx context.Context, in io.Reader, out io.Writer, prompt string) (string, error) {
	fmt.Fprint(out, prompt)
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := readLine(in)
		answers <- answer{line, err}
	}()
	select {
	case a := <-answers:
		return strings.TrimSpace(a.line), a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 4096

// readLine reads up to a line break, and no byte of what follows.
func readLine(in io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < maxAnswer; {
		n, err := in.Read(one)
		if n == 1 && one[0] == '\n' {
			return string(line), nil
		}
		line = append(line, one[:n]...)
		if errors.Is(err, io.EOF) {
			return string(line), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", usagef("the answer is longer than %d bytes", maxAnswer)
}
