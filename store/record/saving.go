package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Saving is a validated diagram as rows, for adapters. An adapter locks the tenant,
// looks up the owners of Refs, calls Check and Assign, and writes.
type Saving struct {
	Diagram int64 // 0 for a new one
	Head    json.RawMessage
	Rows    []Row
	Gone    []Ref        // to delete
	State   DiagramState // before Follow the state to replace, if its version is set; then the new state
}

// Row is an object of a diagram.
type Row struct {
	Ref
	Variable string // key of the variable that a line is bound to, empty for none
	Members  json.RawMessage
}

// Prepare validates the arguments of SaveDiagram; its errors wrap ErrInvalid.
func Prepare(d Diagram, deleted Deleted) (Saving, error) {
	d.SavedAt = d.SavedAt.UTC().Truncate(time.Millisecond)
	s := Saving{Diagram: d.ID, Head: d.Head(), State: d.State()}
	if d.ID < 0 {
		return Saving{}, positive("diagram", d.ID)
	}
	if err := checkHead(d); err != nil {
		return Saving{}, err
	}
	for kind, id := range deleted.All() {
		s.Gone = append(s.Gone, Ref{kind, id})
	}
	for kind, object := range d.Objects.All() {
		row, err := prepareRow(kind, object)
		if err != nil {
			return Saving{}, fmt.Errorf("%s %d: %w", kind, object.ID, err)
		}
		s.Rows = append(s.Rows, row)
	}
	return s, s.checkTwice()
}

func checkHead(d Diagram) error {
	if err := text("savedBy", d.SavedBy, "title", d.Title, "backgroundColor", d.BackgroundColor, "backgroundImg", d.BackgroundImg); err != nil {
		return err
	}
	if len(d.Members) == 0 {
		return nil
	}
	picked, _, err := split(d.Members, headMembers...)
	if err != nil {
		return err
	}
	for name := range picked {
		return fmt.Errorf("%w: Members contains %s", ErrInvalid, name)
	}
	return nil
}

func prepareRow(kind Kind, o Object) (Row, error) {
	if o.ID < 0 {
		return Row{}, positive("id", o.ID)
	}
	bound, members, err := o.variable(kind)
	if err != nil {
		return Row{}, err
	}
	if bound.Text != "" {
		err = bound.validate()
	}
	return Row{Ref{kind, o.ID}, bound.Text, members}, err
}

// checkTwice returns ErrInvalid if an object occurs twice in Refs.
func (s Saving) checkTwice() error {
	seen := make(map[Ref]bool, len(s.Rows))
	for _, r := range s.Refs() {
		if seen[r] {
			return fmt.Errorf("%w: %s %d is named twice", ErrInvalid, r.Kind, r.ID)
		}
		seen[r] = true
	}
	return nil
}

// Refs returns the existing objects to write or delete.
func (s Saving) Refs() []Ref {
	refs := slices.Clone(s.Gone)
	for _, r := range s.Rows {
		if r.ID != 0 {
			refs = append(refs, r.Ref)
		}
	}
	return refs
}

// Check returns a *ConflictError if an object belongs to another diagram.
func (s Saving) Check(owners map[Ref]int64) error {
	for _, r := range s.Refs() {
		if owner, ok := owners[r]; ok && owner != s.Diagram {
			return &ConflictError{r}
		}
	}
	return nil
}

// Follow sets the state of a checked saving. prior is the diagram that it replaces, nil for a
// new one. The version is the one after prior's; if nothing changes, the state is prior's.
// replace says that unnamed objects are removed. A *StaleError says that the caller meant to
// replace another version.
func (s *Saving) Follow(prior *Diagram, replace bool) error {
	switch {
	case prior == nil:
		s.State.Diagram, s.State.Version = s.Diagram, 1
	case s.State.Version != 0 && s.State.Version != prior.Version:
		return &StaleError{prior.State()}
	case s.changes(prior, replace):
		s.State.Version = prior.Version + 1
	default:
		s.State = prior.State()
	}
	return nil
}

func (s *Saving) changes(prior *Diagram, replace bool) bool {
	members := map[Ref]string{}
	for kind, o := range prior.All() {
		members[Ref{kind, o.ID}] = string(o.Members)
	}
	if string(prior.Head()) != string(s.Head) || replace && len(members) != len(s.Rows) {
		return true
	}
	return slices.ContainsFunc(s.Gone, func(r Ref) bool {
		_, ok := members[r]
		return ok
	}) || slices.ContainsFunc(s.Rows, func(r Row) bool {
		was, ok := members[r.Ref]
		return !ok || was != string(r.Members)
	})
}

// New returns how many objects need an id.
func (s Saving) New() int64 {
	n := int64(0)
	for _, r := range s.Rows {
		if r.ID == 0 {
			n++
		}
	}
	return n
}

// Assign gives new objects ids from next on, and returns the next free one. taken returns the
// ids of any kind in [from, to) that are in use: callers may choose ids ahead of next.
func (s Saving) Assign(next int64, taken func(from, to int64) ([]int64, error)) (int64, error) {
	used := map[int64]bool{}
	for _, r := range s.Rows {
		used[r.ID] = true
	}
	need := s.New()
	for i, end := 0, next; need > 0; next++ {
		if next == end {
			end += need
			ids, err := taken(next, end)
			if err != nil {
				return 0, err
			}
			for _, id := range ids {
				used[id] = true
			}
		}
		if used[next] {
			continue
		}
		for s.Rows[i].ID != 0 {
			i++
		}
		s.Rows[i].ID = next
		need--
	}
	return next, nil
}
