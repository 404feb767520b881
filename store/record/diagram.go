package record

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"time"
)

// Kind is a kind of object on a diagram.
type Kind string

// The kinds of objects. Ids are unique among those of one kind.
const (
	Line     Kind = "line"
	Image    Kind = "image"
	Text     Kind = "text"
	Polyline Kind = "polyline"
)

// Ref names an object.
type Ref struct {
	Kind Kind
	ID   int64
}

// Diagram is a canvas with its objects. In JSON it is one object with the known members, those
// of Members, and an array for each kind of object.
type Diagram struct {
	ID              int64
	Title           string
	Status          int64 // 1 if absent in JSON
	BackgroundColor string
	BackgroundImg   string
	Members         json.RawMessage // a JSON object of all other members, or nil
	Objects
	// Version starts at 1, and each save that changes something adds 1. In a save it is the
	// version that was read, or 0 to replace any.
	Version int64
	SavedBy string    // not in JSON
	SavedAt time.Time // not in JSON; in milliseconds
}

// DiagramState is a state of a diagram.
type DiagramState struct {
	Diagram int64     `json:"id"`
	Version int64     `json:"version"`
	Title   string    `json:"title"`
	SavedBy string    `json:"savedBy"` // empty if it was imported
	SavedAt time.Time `json:"savedAt"` // the zero time if it was imported
}

// State returns the state of a diagram.
func (d Diagram) State() DiagramState {
	return DiagramState{d.ID, d.Version, d.Title, d.SavedBy, d.SavedAt}
}

// PerKind holds things by the kind of their objects.
type PerKind[T any] struct {
	Lines     []T `json:"lines"`
	Images    []T `json:"images"`
	Texts     []T `json:"texts"`
	Polylines []T `json:"polylines"`
}

// Objects are the objects of a diagram.
type Objects = PerKind[Object]

// Deleted are the ids of objects to delete.
type Deleted = PerKind[int64]

// Object is a line, an image, a text or a polyline. In JSON it is one object with its id, the
// members of Members, and variable if that is set.
type Object struct {
	ID int64 // 0 for a new one in a save
	// Members is a JSON object of all members but the id. Its member id_tsvars binds
	// a line to a variable.
	Members json.RawMessage
	// Variable is set when a bound line is read, and ignored in a save.
	Variable *Bound
}

// All yields everything, kind by kind.
func (p *PerKind[T]) All() iter.Seq2[Kind, T] {
	return func(yield func(Kind, T) bool) {
		for _, k := range []Kind{Line, Image, Text, Polyline} {
			for _, one := range *p.of(k) {
				if !yield(k, one) {
					return
				}
			}
		}
	}
}

// Add appends one of a kind.
func (p *PerKind[T]) Add(k Kind, one T) {
	list := p.of(k)
	*list = append(*list, one)
}

func (p *PerKind[T]) of(k Kind) *[]T {
	switch k {
	case Line:
		return &p.Lines
	case Image:
		return &p.Images
	case Text:
		return &p.Texts
	}
	return &p.Polylines
}

func (o Object) MarshalJSON() ([]byte, error) {
	dst := appendMember([]byte{'{'}, "id", strconv.AppendInt(nil, o.ID, 10))
	dst = appendMembers(dst, o.Members)
	if o.Variable != nil {
		v, err := marshal(o.Variable)
		if err != nil {
			return nil, err
		}
		dst = appendMember(dst, "variable", v)
	}
	return append(dst, '}'), nil
}

// UnmarshalJSON leaves variable in Members, since only lines give it a meaning.
func (o *Object) UnmarshalJSON(data []byte) error {
	picked, rest, err := split(data, "id")
	if err != nil {
		return err
	}
	*o = Object{Members: rest}
	return unmarshal(picked, "id", &o.ID)
}

// headMembers are the members of a diagram that this package knows.
var headMembers = []string{"id", "version", "title", "status", "backgroundColor", "backgroundImg", "lines", "images", "texts", "polylines"}

func (d Diagram) MarshalJSON() ([]byte, error) {
	objects := Objects{nonNil(d.Lines), nonNil(d.Images), nonNil(d.Texts), nonNil(d.Polylines)}
	arrays, err := marshal(objects)
	if err != nil {
		return nil, err
	}
	dst := appendMember([]byte{'{'}, "id", strconv.AppendInt(nil, d.ID, 10))
	if d.Version != 0 {
		dst = appendMember(dst, "version", strconv.AppendInt(nil, d.Version, 10))
	}
	dst = appendMembers(dst, d.Head())
	return append(appendMembers(dst, arrays), '}'), nil
}

func nonNil(list []Object) []Object {
	if list == nil {
		return []Object{}
	}
	return list
}

func (d *Diagram) UnmarshalJSON(data []byte) error {
	picked, rest, err := split(data, headMembers...)
	if err != nil {
		return err
	}
	*d = Diagram{Status: 1, Members: rest}
	if string(rest) == "{}" {
		d.Members = nil
	}
	for name, into := range map[string]any{
		"id": &d.ID, "version": &d.Version, "title": &d.Title, "status": &d.Status,
		"backgroundColor": &d.BackgroundColor, "backgroundImg": &d.BackgroundImg,
		"lines": &d.Lines, "images": &d.Images, "texts": &d.Texts, "polylines": &d.Polylines,
	} {
		if err := unmarshal(picked, name, into); err != nil {
			return err
		}
	}
	return nil
}

// Head returns a diagram without its id, version and objects as JSON, for adapters.
func (d Diagram) Head() json.RawMessage {
	dst := appendMember([]byte{'{'}, "title", quote(d.Title))
	dst = appendMember(dst, "status", strconv.AppendInt(nil, d.Status, 10))
	dst = appendMember(dst, "backgroundColor", quote(d.BackgroundColor))
	dst = appendMember(dst, "backgroundImg", quote(d.BackgroundImg))
	return append(appendMembers(dst, d.Members), '}')
}

// Shows reports whether a line is bound to the variable with a key.
func (d Diagram) Shows(key string) bool {
	return slices.ContainsFunc(d.Lines, func(o Object) bool {
		id, _, err := o.variable(Line)
		return err == nil && id != (ID{}) && id.Text == key
	})
}

// variable returns the id in id_tsvars, or the zero ID, and the members to store for this
// kind.
func (o Object) variable(k Kind) (ID, json.RawMessage, error) {
	if len(o.Members) == 0 {
		return ID{}, json.RawMessage("{}"), nil
	}
	var bound []byte
	dropped, rest := false, append(make(json.RawMessage, 0, len(o.Members)), '{')
	err := each(o.Members, func(name string, rawName, value []byte) {
		if name == "id" || k == Line && name == "variable" {
			dropped = true
			return
		}
		if k == Line && name == "id_tsvars" {
			bound = value
		}
		rest = appendRaw(rest, rawName, value)
	})
	if err != nil {
		return ID{}, nil, err
	}
	if rest = append(rest, '}'); !dropped {
		rest = o.Members
	}
	var id ID
	if bound != nil {
		err = id.UnmarshalJSON(bound)
	}
	return id, rest, err
}
