package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tsmon/api/monitor/content"
	"tsmon/cmd/tsmon/cli"
	"tsmon/store/record"
)

func tenantDiagramsCommand(app *cli.App) *cobra.Command {
	cmd := itemsCommand(app, &cobra.Command{
		Use:   "diagrams SCHEMA list|show|restore|delete [DIAGRAM] [VERSION]",
		Short: "List, show and restore versions of diagrams, and delete diagrams",
		Long: fmt.Sprintf(`Manage the versions of diagrams. Each save that changes a diagram makes a version; the
last %d are kept, the present one included.

  list [DIAGRAM]           the versions that are kept, who saved them and when
  show DIAGRAM VERSION     write a version as YAML (JSON with --json), as a file that
                           tenant import reads
  restore DIAGRAM VERSION  save a version again, as a new one: objects that it did not
                           have are removed. The version that it replaces is kept
  delete DIAGRAM           delete a diagram with all of its versions; without --yes only
                           print what would be deleted

DIAGRAM is the ID of a diagram. A restore is refused with exit code 4 if somebody saves
the diagram in the meantime. Running servers show the restored diagram at once.`, record.KeptStates),
		Example: `  tsmon tenant diagrams acueducto list
  tsmon tenant diagrams acueducto show 7 12
  tsmon tenant diagrams acueducto restore 7 12 --dry-run
  tsmon tenant diagrams acueducto restore 7 12
  tsmon tenant diagrams acueducto delete 7 --yes`,
	}, []action{
		{name: "list", short: "the versions that are kept", most: 1, takes: "at most one DIAGRAM", run: onVersion(app, runDiagramsList)},
		{name: "show", short: "write a version as tenant import reads it", least: 2, most: 2, takes: "a DIAGRAM and a VERSION", run: onVersion(app, runDiagramsShow)},
		{name: "restore", short: "save a version again", least: 2, most: 2, takes: "a DIAGRAM and a VERSION", changes: true, run: onVersion(app, runDiagramsRestore)},
		deleteAction(app, deletable[int64]{
			kind: "diagram", kinds: "diagrams", argument: "DIAGRAM", parse: number, find: findDiagram, remove: record.Store.DeleteDiagram,
		}),
	}, completeDiagrams)
	cmd.Flags().Lookup("dry-run").Usage = "print what restore or delete would do, change nothing"
	return cmd
}

type diagramVersion struct {
	schema      string
	id, version int64 // 0 if not given
	dryRun      bool
}

// onVersion returns an action of its arguments, a DIAGRAM and a VERSION.
func onVersion(app *cli.App, run func(context.Context, *cli.App, diagramVersion) error) func(context.Context, string, []string, deleteFlags) error {
	return func(ctx context.Context, schema string, args []string, f deleteFlags) (err error) {
		v := diagramVersion{schema: schema, dryRun: f.dryRun}
		if len(args) > 0 {
			if v.id, err = number("DIAGRAM", args[0]); err != nil {
				return err
			}
		}
		if len(args) > 1 {
			if v.version, err = number("VERSION", args[1]); err != nil {
				return err
			}
		}
		return run(ctx, app, v)
	}
}

// ListedVersion is what `tsmon tenant diagrams SCHEMA list` prints of a version.
type ListedVersion struct {
	Diagram int64     `json:"id"`
	Version int64     `json:"version"`
	Present bool      `json:"present"` // it is what clients see
	Title   string    `json:"title"`
	SavedBy string    `json:"savedBy,omitempty"` // absent if it was imported
	SavedAt time.Time `json:"savedAt,omitzero"`  // absent if it was imported
}

func runDiagramsList(ctx context.Context, app *cli.App, o diagramVersion) error {
	read := func(s record.Store) (listed []ListedVersion, err error) {
		states, err := s.DiagramStates(ctx, o.schema)
		last := int64(0)
		for _, d := range states {
			if o.id == 0 || o.id == d.Diagram {
				listed = append(listed, ListedVersion{d.Diagram, d.Version, d.Diagram != last, d.Title, d.SavedBy, d.SavedAt})
			}
			last = d.Diagram
		}
		return listed, err
	}
	return printAll(ctx, app, []string{"DIAGRAM", "VERSION", "PRESENT", "SAVED AT", "SAVED BY", "TITLE"}, read, func(v ListedVersion) []string {
		at, by := "", "an import"
		if !v.SavedAt.IsZero() {
			at, by = v.SavedAt.Format(time.RFC3339), v.SavedBy
		}
		return []string{strconv.FormatInt(v.Diagram, 10), strconv.FormatInt(v.Version, 10), strconv.FormatBool(v.Present), at, by, v.Title}
	})
}

func runDiagramsShow(ctx context.Context, app *cli.App, o diagramVersion) error {
	d, err := fromRecords(ctx, app, func(s record.Store) (record.Diagram, error) { return readVersion(ctx, s, o) })
	if err != nil {
		return err
	}
	d.Version = 0
	encode := content.EncodeYAML
	if app.JSON {
		encode = content.EncodeJSON
	}
	text, err := encode(content.Owned{Content: record.Content{Diagrams: []record.Diagram{d}}})
	if err != nil {
		return err
	}
	return app.Write(text)
}

func readVersion(ctx context.Context, s record.Store, o diagramVersion) (record.Diagram, error) {
	if _, err := s.Tenant(ctx, o.schema); err != nil {
		return record.Diagram{}, err
	}
	d, err := s.DiagramState(ctx, o.schema, o.id, o.version)
	if errors.Is(err, record.ErrNotFound) {
		err = cli.WithHint(cli.Reword(err, "version %d of the diagram %d is not kept", o.version, o.id),
			fmt.Sprintf("`tsmon tenant diagrams %s list` shows the versions that are kept", o.schema))
	}
	return d, err
}

// RestoredDiagram is what `tsmon tenant diagrams SCHEMA restore` prints.
type RestoredDiagram struct {
	Schema   string `json:"schema"`
	Diagram  int64  `json:"id"`
	Restored int64  `json:"restored"` // the version that was given
	Version  int64  `json:"version"`  // the present version after the restore
	Title    string `json:"title"`
	Changed  bool   `json:"changed"` // false if the diagram was like that already
	DryRun   bool   `json:"dry_run"`
}

func runDiagramsRestore(ctx context.Context, app *cli.App, o diagramVersion) error {
	r, err := fromRecords(ctx, app, func(s record.Store) (RestoredDiagram, error) { return restoreDiagram(ctx, s, o, app.Who(), app.Now()) })
	if err != nil {
		return err
	}
	return app.Print(r, func(w io.Writer) {
		if !r.Changed {
			fmt.Fprintf(w, "the diagram %d is as in version %d already\n", r.Diagram, r.Restored)
			return
		}
		fmt.Fprintf(w, "%s version %d of the diagram %d as version %d\n", cli.Verb(r.DryRun, "restored", "would restore"), r.Restored, r.Diagram, r.Version)
	})
}

// restoreDiagram saves a version of a diagram in place of the present one.
func restoreDiagram(ctx context.Context, s record.Store, o diagramVersion, by string, at time.Time) (RestoredDiagram, error) {
	d, err := readVersion(ctx, s, o)
	if err != nil {
		return RestoredDiagram{}, err
	}
	present, err := s.Diagram(ctx, o.schema, o.id)
	if err != nil {
		return RestoredDiagram{}, err
	}
	d.Version, d.SavedBy, d.SavedAt = present.Version, by, at
	save := s.SaveDiagram
	if o.dryRun {
		save = func(ctx context.Context, schema string, d record.Diagram, deleted record.Deleted) (record.DiagramState, error) {
			return planSave(ctx, s, schema, d, deleted, &present)
		}
	}
	state, err := save(ctx, o.schema, d, added(present, d))
	switch {
	case errors.Is(err, record.ErrStale):
		err = cli.WithHint(err, "restore it again if that is still what you want; nothing was changed")
	case errors.Is(err, record.ErrConflict):
		err = cli.WithHint(err, fmt.Sprintf("write the version to a file with `tsmon tenant diagrams %s show %d %d`, give the object another ID there, and import the file", o.schema, o.id, o.version))
	}
	return RestoredDiagram{o.schema, o.id, o.version, state.Version, state.Title, state.Version != present.Version, o.dryRun}, err
}

func findDiagram(ctx context.Context, s record.Store, t record.Tenant, id int64) (Deletion, error) {
	present, err := s.Diagram(ctx, t.Schema, id)
	if err != nil {
		return Deletion{}, err
	}
	states, err := s.DiagramStates(ctx, t.Schema)
	d := Deletion{Name: present.Title}
	d.with("lines", len(present.Lines))
	d.with("images", len(present.Images))
	d.with("texts", len(present.Texts))
	d.with("polylines", len(present.Polylines))
	d.with("versions", len(slices.DeleteFunc(states, func(state record.DiagramState) bool { return state.Diagram != id })))
	return d, err
}

// planSave returns what SaveDiagram would return for the present state.
func planSave(ctx context.Context, s record.Store, schema string, d record.Diagram, deleted record.Deleted, present *record.Diagram) (record.DiagramState, error) {
	saving, err := record.Prepare(d, deleted)
	if err != nil {
		return record.DiagramState{}, err
	}
	owned, err := s.Export(ctx, schema)
	if err != nil {
		return record.DiagramState{}, err
	}
	owners := map[record.Ref]int64{}
	for _, other := range owned.Diagrams {
		for kind, object := range other.All() {
			owners[record.Ref{Kind: kind, ID: object.ID}] = other.ID
		}
	}
	if err := saving.Check(owners); err != nil {
		return record.DiagramState{}, err
	}
	err = saving.Follow(present, false)
	return saving.State, err
}

// added returns the objects of a diagram that its earlier version lacks.
func added(present, earlier record.Diagram) (ids record.Deleted) {
	had := map[record.Ref]bool{}
	for kind, o := range earlier.All() {
		had[record.Ref{Kind: kind, ID: o.ID}] = true
	}
	for kind, o := range present.All() {
		if !had[record.Ref{Kind: kind, ID: o.ID}] {
			ids.Add(kind, o.ID)
		}
	}
	return ids
}

// completeDiagrams returns the ids of diagrams, or the versions of the given one.
func completeDiagrams(ctx context.Context, s record.Store, schema string, given []string) (names []string, err error) {
	states, err := s.DiagramStates(ctx, schema)
	last := int64(0)
	for _, d := range states {
		id, title := strconv.FormatInt(d.Diagram, 10), "\t"+cli.OneLine(d.Title)
		switch {
		case len(given) == 0 && d.Diagram != last:
			names = append(names, id+title)
		case len(given) == 1 && given[0] == id:
			names = append(names, strconv.FormatInt(d.Version, 10)+title)
		}
		last = d.Diagram
	}
	return names, err
}
