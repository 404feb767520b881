package monitor

import (
	"context"
	"net/http"

	"tsmon/api/web"
	"tsmon/store/record"
)

// lists serves records that are only read.
type lists struct{ Options }

// saved returns the variables of the caller's schema, for a minute also without the
// records.
func (l *lists) saved(r *http.Request, who caller) (any, error) {
	return list(l.Memory.variables.get(who.tenant.Schema, func() ([]record.Variable, error) {
		return l.Records.Variables(r.Context(), who.tenant.Schema)
	}))
}

// all returns a handler that returns all records of a kind in the caller's schema.
func all[T any](read func(ctx context.Context, schema string) ([]T, error)) func(*http.Request, caller) (any, error) {
	return func(r *http.Request, who caller) (any, error) {
		return list(read(r.Context(), who.tenant.Schema))
	}
}

// list returns an answer whose data is an array, never null.
func list[T any](found []T, err error) (any, error) {
	if found == nil {
		found = []T{}
	}
	return web.Data{Data: found}, err
}

func (l *lists) notifyConfig(r *http.Request, who caller) (any, error) {
	found, err := l.Records.NotifyConfig(r.Context(), who.tenant.Schema)
	if found == nil {
		found = record.NotifyConfig{}
	}
	return web.Data{Data: found}, err
}

// permissions returns the permissions of a user, with those of a profile if one is
// given, or of a profile. Only administrators see those of others.
func (l *lists) permissions(r *http.Request, who caller) (any, error) {
	query := r.URL.Query()
	id, err := integer(query, "id")
	if err != nil {
		return nil, err
	}
	var user, profile int64
	if query.Get("profile") != "" {
		if profile, err = integer(query, "profile"); err != nil {
			return nil, err
		}
	}
	switch kind := query.Get("type"); kind {
	case "id_user":
		user = id
	case "id_profile":
		profile = id
	default:
		return nil, web.Invalid("the parameter type has to be id_user or id_profile, not %.40q", kind)
	}
	own := (user == 0 || user == who.user.ID) && (profile == 0 || profile == who.user.Profile)
	if !own && !who.user.Admin {
		return nil, web.Refuse(http.StatusForbidden, "only administrators see the permissions of others")
	}
	found, err := l.Records.Permissions(r.Context(), who.tenant.Schema, user, profile)
	return list(found, err)
}
