package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tsmon/api/monitor/content"
	"tsmon/cmd/tsmon/cli"
	"tsmon/store/record"
)

// diagramActions are the actions of `tsmon tenant diagrams SCHEMA`, with the number of
// arguments of each.
var diagramActions = map[string]struct {
	least, most  int
	takes, short string
}{
	"list":    {0, 1, "at most one DIAGRAM", "the versions that are kept"},
	"show":    {2, 2, "a DIAGRAM and a VERSION", "write a version as tenant import reads it"},
	"restore": {2, 2, "a DIAGRAM and a VERSION", "save a version again"},
	"delete":  {1, 1, "a DIAGRAM", "delete a diagram and its versions"},
}

// diagramOptions are the arguments and flags of `tsmon tenant diagrams`.
type diagramOptions struct {
	schema, action string
	id, version    int64 // 0 if not given
	deleteFlags
}

func tenantDiagramsCommand(app *cli.App) *cobra.Command {
	var o diagramOptions
	cmd := &cobra.Command{
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
		Args:              cli.Args(2, 4, "a SCHEMA, and list, show, restore or delete"),
		ValidArgsFunction: completeDiagrams(app),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(args); err != nil {
				return err
			}
			return runTenantDiagrams(cmd.Context(), app, o)
		},
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print what restore or delete would do, change nothing")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "delete the diagram")
	return cmd
}

// parse reads the arguments.
func (o *diagramOptions) parse(args []string) error {
	o.schema, o.action = args[0], args[1]
	action, known := diagramActions[o.action]
	switch n := len(args) - 2; {
	case !known:
		return cli.Usagef("%.80q is not one of list, show, restore and delete, which follow the SCHEMA", o.action)
	case n < action.least || n > action.most:
		return cli.Usagef("%s takes %s", o.action, action.takes)
	case o.dryRun && o.action != "restore" && o.action != "delete":
		return cli.Usagef("--dry-run is for restore and delete; %s changes nothing", o.action)
	case o.yes && o.action != "delete":
		return cli.Usagef("--yes is only for delete")
	}
	numbers := []*int64{&o.id, &o.version}
	for i, text := range args[2:] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return cli.Usagef("%.80q is not a %s, which is an integer of at least 1", text, []string{"DIAGRAM", "VERSION"}[i])
		}
		*numbers[i] = n
	}
	return nil
}

func runTenantDiagrams(ctx context.Context, app *cli.App, o diagramOptions) error {
	switch o.action {
	case "list":
		return runDiagramsList(ctx, app, o)
	case "show":
		return runDiagramsShow(ctx, app, o)
	case "delete":
		return runDiagramsDelete(ctx, app, o)
	}
	return runDiagramsRestore(ctx, app, o)
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

func runDiagramsList(ctx context.Context, app *cli.App, o diagramOptions) error {
	versions := []ListedVersion{}
	rows := [][]string{{"DIAGRAM", "VERSION", "PRESENT", "SAVED AT", "SAVED BY", "TITLE"}}
	err := withRecords(ctx, app, func(s record.Store) error {
		states, err := s.DiagramStates(ctx, o.schema)
		last := int64(0)
		for _, d := range states {
			v := ListedVersion{d.Diagram, d.Version, d.Diagram != last, d.Title, d.SavedBy, d.SavedAt}
			if last = d.Diagram; o.id != 0 && o.id != d.Diagram {
				continue
			}
			versions = append(versions, v)
			rows = append(rows, v.row())
		}
		return err
	})
	if err != nil {
		return err
	}
	return app.Print(versions, func(w io.Writer) { cli.Table(w, rows) })
}

func (v ListedVersion) row() []string {
	at, by := "", "an import"
	if !v.SavedAt.IsZero() {
		at, by = v.SavedAt.Format(time.RFC3339), v.SavedBy
	}
	return []string{strconv.FormatInt(v.Diagram, 10), strconv.FormatInt(v.Version, 10), strconv.FormatBool(v.Present), at, by, v.Title}
}

func runDiagramsShow(ctx context.Context, app *cli.App, o diagramOptions) error {
	var d record.Diagram
	err := withRecords(ctx, app, func(s record.Store) (err error) {
		d, err = readVersion(ctx, s, o)
		return err
	})
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

// readVersion returns a version of a diagram.
func readVersion(ctx context.Context, s record.Store, o diagramOptions) (record.Diagram, error) {
	if _, err := s.Tenant(ctx, o.schema); err != nil {
		return record.Diagram{}, fmt.Errorf("%.80q: %w", o.schema, err)
	}
	d, err := s.DiagramState(ctx, o.schema, o.id, o.version)
	if errors.Is(err, record.ErrNotFound) {
		err = cli.WithHint(fmt.Errorf("version %d of the diagram %d is not kept: %w", o.version, o.id, err),
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

func runDiagramsRestore(ctx context.Context, app *cli.App, o diagramOptions) error {
	var r RestoredDiagram
	err := withRecords(ctx, app, func(s record.Store) (err error) {
		r, err = restoreDiagram(ctx, s, o, app.Who(), app.Now())
		return err
	})
	if err != nil {
		return err
	}
	return app.Print(r, func(w io.Writer) {
		switch {
		case !r.Changed:
			fmt.Fprintf(w, "the diagram %d is as in version %d already\n", r.Diagram, r.Restored)
		case r.DryRun:
			fmt.Fprintf(w, "would restore version %d of the diagram %d as version %d\n", r.Restored, r.Diagram, r.Version)
		default:
			fmt.Fprintf(w, "restored version %d of the diagram %d as version %d\n", r.Restored, r.Diagram, r.Version)
		}
	})
}

// restoreDiagram saves a version of a diagram in place of the present one.
func restoreDiagram(ctx context.Context, s record.Store, o diagramOptions, by string, at time.Time) (RestoredDiagram, error) {
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

func runDiagramsDelete(ctx context.Context, app *cli.App, o diagramOptions) error {
	id := strconv.FormatInt(o.id, 10)
	return runDelete(ctx, app, o.deleteFlags,
		func(s record.Store) (Deletion, error) {
			if _, err := s.Tenant(ctx, o.schema); err != nil {
				return Deletion{}, fmt.Errorf("%.80q: %w", o.schema, err)
			}
			d, err := findDiagram(ctx, s, o)
			return d, explainMissing(err, o.schema, "diagram", "diagrams", id)
		},
		func(s record.Store) error {
			return explainMissing(s.DeleteDiagram(ctx, o.schema, o.id), o.schema, "diagram", "diagrams", id)
		})
}

func findDiagram(ctx context.Context, s record.Store, o diagramOptions) (Deletion, error) {
	present, err := s.Diagram(ctx, o.schema, o.id)
	if err != nil {
		return Deletion{}, err
	}
	states, err := s.DiagramStates(ctx, o.schema)
	if err != nil {
		return Deletion{}, err
	}
	d := Deletion{Schema: o.schema, Kind: "diagram", ID: strconv.FormatInt(o.id, 10), Name: present.Title}
	d.with("lines", len(present.Lines))
	d.with("images", len(present.Images))
	d.with("texts", len(present.Texts))
	d.with("polylines", len(present.Polylines))
	versions := 0
	for _, state := range states {
		if state.Diagram == o.id {
			versions++
		}
	}
	d.with("versions", versions)
	return d, nil
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
func added(present, earlier record.Diagram) record.Deleted {
	without := func(now, then []record.Object) (ids []int64) {
		had := map[int64]bool{}
		for _, o := range then {
			had[o.ID] = true
		}
		for _, o := range now {
			if !had[o.ID] {
				ids = append(ids, o.ID)
			}
		}
		return ids
	}
	return record.Deleted{
		Lines: without(present.Lines, earlier.Lines), Images: without(present.Images, earlier.Images),
		Texts: without(present.Texts, earlier.Texts), Polylines: without(present.Polylines, earlier.Polylines),
	}
}

// completeDiagrams completes the arguments of `tenant diagrams`.
func completeDiagrams(app *cli.App) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		var err error
		switch {
		case len(args) == 0:
			names, err = app.Schemas(cmd)
		case len(args) == 1:
			for _, action := range slices.Sorted(maps.Keys(diagramActions)) {
				names = append(names, action+"\t"+diagramActions[action].short)
			}
		case len(args)-2 < diagramActions[args[1]].most:
			err = app.LocalRecords(cmd.Context(), func(s record.Store) error {
				states, err := s.DiagramStates(cmd.Context(), args[0])
				names = completeStates(states, args[2:])
				return err
			})
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeStates returns the ids of diagrams, or the versions of the one that is given.
func completeStates(states []record.DiagramState, given []string) (names []string) {
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
	return names
}
