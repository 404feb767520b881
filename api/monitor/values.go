package monitor

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"tsmon/api/web"
	"tsmon/store/series"
)

// maxWants bounds the series that one batch may need.
const maxWants = 4000

// values serves current values and series.
type values struct {
	Options
	store *series.Cached
	plans plans
	turns *turns              // of questions for series
	room  *semaphore.Weighted // for points that are held until they are written
}

// batch returns a value for each requested ID, null if it is missing, with one query of
// the database. A variable that can't have a value is missing, and a header says why.
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
	plan.problems.log(r)
	return valuesAnswer{web.Data{Data: result}, plan.problems}, err
}

// valuesAnswer is an answer some of whose items may have problems.
type valuesAnswer struct {
	web.Data
	problems
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
	return readAll(variables, window)
}

func readAll(variables []*variable, window time.Duration) (*plan, error) {
	var wrong web.Problems
	p := &plan{readings: map[string]reading{}, places: map[series.Want]int{}}
	for i, v := range variables {
		if v == nil || v.ID.Text == "" {
			wrong.Add("item %d: it needs dataTs with an id", i)
			continue
		}
		found, err := v.read(window)
		if err != nil {
			p.miss(v.ID.Text, err.Error())
			continue
		}
		p.add(v.ID.Text, found)
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return p, p.lay()
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
	type value struct {
		Value *float64 `json:"value"`
	}
	answer, wrong := value{}, problems{}
	switch err := series.ValidWants([]series.Want{want}); {
	case query.CalcField == "" || query.Measurement == "":
		return nil, web.Invalid("it needs measurement and calc_field")
	case err != nil:
		wrong.add(query.CalcField, err.Error())
		wrong.log(r)
	default:
		values, err := v.store.Current(r.Context(), who.tenant.TsName, []series.Want{want})
		if err != nil {
			return nil, err
		}
		if values[0].Found {
			number := values[0].Number + 0 // turns -0 into 0
			answer.Value = &number
		}
	}
	return valuesAnswer{web.Data{Data: map[string]value{query.CalcField: answer}}, wrong}, nil
}
