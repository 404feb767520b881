package monitor

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"tsmon/api/monitor/times"
	"tsmon/api/web"
	"tsmon/store/record"
)

type diagrams struct{ *gate }

// get returns one diagram in an array, which is empty if there is none.
func (d *diagrams) get(r *http.Request, who caller) (any, error) {
	id, err := integer(r.URL.Query(), "id")
	if err != nil {
		return nil, err
	}
	found, err := d.Records.Diagram(r.Context(), who.tenant.Schema, id)
	if errors.Is(err, record.ErrNotFound) {
		return web.Data{Data: []record.Diagram{}}, nil
	}
	return web.Data{Data: []record.Diagram{found}}, err
}

func integer(query url.Values, name string) (int64, error) {
	texts := query[name]
	if len(texts) != 1 {
		return 0, web.Invalid("the parameter %s has to be given once", name)
	}
	n, err := strconv.ParseInt(texts[0], 10, 64)
	if err != nil {
		return 0, web.Invalid("the parameter %s has to be an integer, not %.40q", name, texts[0])
	}
	return n, nil
}

// saved is the answer to a save. It repeats the success, because some clients look at
// data alone.
type saved struct {
	Success bool  `json:"success"`
	ID      int64 `json:"id"`
	Version int64 `json:"version"`
}

// save saves a diagram and its objects, and deletes the objects that the client deleted. If
// the diagram names the version that was read, that must be the present one.
func (d *diagrams) save(r *http.Request, who caller) (any, error) {
	if err := d.permit(r.Context(), who, who.tenant.Settings.SaveMenu, "save diagrams"); err != nil {
		return nil, err
	}
	diagram, deleted, err := readDiagram(r)
	if err != nil {
		return nil, err
	}
	diagram.SavedBy, diagram.SavedAt = who.user.Email, d.Now()
	state, err := d.Records.SaveDiagram(r.Context(), who.tenant.Schema, diagram, deleted)
	target := diagram.ID
	if err == nil {
		target = state.Diagram
	}
	d.audit(r, record.Audit{
		Schema: who.tenant.Schema, User: who.user.Email, Action: "save",
		Target: "diagram " + strconv.FormatInt(target, 10), OK: err == nil,
	})
	if stale, ok := errors.AsType[*record.StaleError](err); ok {
		return nil, staleSave(who, stale.Present)
	}
	if errors.Is(err, record.ErrNotFound) {
		return nil, web.Refuse(http.StatusNotFound, "there is no diagram %d", diagram.ID)
	}
	if err != nil {
		return nil, err
	}
	return web.Done{Success: true, Data: saved{true, state.Diagram, state.Version}}, nil
}

// staleSave says who saved a diagram when, as the tenant shows times.
func staleSave(who caller, present record.DiagramState) error {
	texts, err := times.NewClock(who.tenant.Settings)
	if err != nil {
		return err
	}
	by := "an import"
	if present.SavedBy != "" {
		by = present.SavedBy + " at " + texts.Text(present.SavedAt, false)
	}
	return web.Refuse(http.StatusConflict, "the diagram was saved by %s, since it was read: read version %d and save again", by, present.Version)
}

func readDiagram(r *http.Request) (record.Diagram, record.Deleted, error) {
	var body struct {
		Diagram json.RawMessage `json:"diagram"`
		record.Objects
		Deleted record.Deleted `json:"deleted"`
	}
	if err := web.Decode(r, &body); err != nil {
		return record.Diagram{}, record.Deleted{}, err
	}
	var d record.Diagram
	if err := json.Unmarshal(body.Diagram, &d); len(body.Diagram) == 0 || err != nil {
		return record.Diagram{}, record.Deleted{}, web.Invalid("diagram has to be an object with id, version, title, status, backgroundColor and backgroundImg")
	}
	d.Objects = body.Objects
	return d, body.Deleted, checkDiagram(d, body.Deleted)
}

func checkDiagram(d record.Diagram, deleted record.Deleted) error {
	var wrong web.Problems
	for _, array := range []struct {
		name          string
		objects, gone int
	}{
		{"lines", len(d.Lines), len(deleted.Lines)},
		{"images", len(d.Images), len(deleted.Images)},
		{"texts", len(d.Texts), len(deleted.Texts)},
		{"polylines", len(d.Polylines), len(deleted.Polylines)},
	} {
		if most := max(array.objects, array.gone); most > web.MaxItems {
			wrong.Add("%s: %d items, at most %d are allowed", array.name, most, web.MaxItems)
		}
	}
	for i, line := range d.Lines {
		if i < web.MaxItems {
			checkLine(&wrong, i, line)
		}
	}
	if d.Version < 0 {
		wrong.Add("version %d is below zero", d.Version)
	}
	if !showable(d.BackgroundImg) {
		wrong.Add("backgroundImg has to be empty, a path, or an http or https address")
	}
	if _, err := record.Prepare(d, deleted); err != nil {
		wrong.Add("%s", err)
	}
	return wrong.Err()
}

// showable reports whether clients may load an image from an address. The server
// itself never does.
func showable(address string) bool {
	u, err := url.Parse(address)
	if err != nil || strings.ContainsAny(address, "\\<>\"") {
		return false
	}
	return u.Scheme == "" || (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
