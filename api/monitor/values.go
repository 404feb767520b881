package monitor

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"tsmon/api/web"
	"tsmon/store/record"
	"tsmon/store/series"
)

// maxWants bounds the series that one batch may need.
const maxWants = 4000

// values serves current values and series.
type values struct {
	store   *series.Cached
	records record.Store
	plans   plans
	now     func() time.Time
}

// batch returns a value for each requested ID, null if it is missing, with one query of
// the database.
func (v *values) batch(r *http.Request, who caller) (any, error) {
	body, err := web.ReadBody(r)
	if err != nil {
		return nil, err
	}
	window := time.Duration(who.tenant.Settings.Window)
	plan, err := v.plans.find(body, window, func() (*plan, error) { return readBatch(body, window) })
	if err != nil {
		return nil, err
	}
	result, err := v.compute(r.Context(), who, plan)
	return web.Data{Data: result}, err
}

func readBatch(body []byte, window time.Duration) (*plan, error) {
	var items []struct {
		Variable *variable `json:"dataTs"`
	}
	if err := web.DecodeJSON(body, &items); err != nil {
		return nil, err
	}
	if err := web.AtMost("the batch", len(items)); err != nil {
		return nil, err
	}
	variables := make([]*variable, len(items))
	for i, item := range items {
		variables[i] = item.Variable
	}
	readings, err := readAll(variables, window)
	if err != nil {
		return nil, err
	}
	return newPlan(readings)
}

// readAll returns the reading of each variable, by ID.
func readAll(variables []*variable, window time.Duration) (map[string]reading, error) {
	var wrong web.Problems
	readings := make(map[string]reading, len(variables))
	for i, v := range variables {
		if v == nil || v.ID.Text == "" {
			wrong.Add("item %d: it needs dataTs with an id", i)
			continue
		}
		found, err := v.read(window)
		if err != nil {
			wrong.Add("item %d (id %.80q): %s", i, v.ID.Text, err)
			continue
		}
		if first, ok := readings[v.ID.Text]; ok && !reflect.DeepEqual(first, found) {
			wrong.Add("item %d: id %.80q stands for something else in an earlier item", i, v.ID.Text)
		}
		readings[v.ID.Text] = found
	}
	return readings, wrong.Err()
}

// compute queries what a plan needs and computes its readings.
func (v *values) compute(ctx context.Context, who caller, p *plan) (map[string]*float64, error) {
	var values []series.Value
	if len(p.wants) > 0 {
		var err error
		if values, err = v.store.Current(ctx, who.tenant.TsName, p.wants); err != nil {
			return nil, err
		}
	}
	found := func(want series.Want) series.Value { return values[p.places[want]] }
	result := make(map[string]*float64, len(p.readings))
	for id, reading := range p.readings {
		result[id] = reading.value(found)
	}
	return result, nil
}

// current returns the last value of one field.
func (v *values) current(r *http.Request, who caller) (any, error) {
	var query struct {
		CalcField   string `json:"calc_field"`
		Measurement string `json:"measurement"`
	}
	if err := web.Decode(r, &query); err != nil {
		return nil, err
	}
	want := series.Want{Key: series.Key{Measurement: query.Measurement, Field: query.CalcField}}
	if err := series.ValidWants([]series.Want{want}); err != nil {
		return nil, web.Invalid("%s", err)
	}
	values, err := v.store.Current(r.Context(), who.tenant.TsName, []series.Want{want})
	if err != nil {
		return nil, err
	}
	type value struct {
		Value *float64 `json:"value"`
	}
	answer := value{}
	if values[0].Found {
		answer.Value = &values[0].Number
	}
	return web.Data{Data: map[string]value{query.CalcField: answer}}, nil
}
