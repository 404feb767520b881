package influx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	client "github.com/influxdata/influxdb-client-go/v2/api/http"
	"github.com/influxdata/influxdb-client-go/v2/domain"

	"tsmon/store/series"
)

// ErrOrg says that an organisation can't be found.
var ErrOrg = fmt.Errorf("%w: there is no such organisation, or the token may not see it", series.ErrInvalid)

// hasBuckets reports whether the server is a 2.x, which has buckets and organisations:
// then it tells whether it has been set up.
func (s *Store) hasBuckets(ctx context.Context) (bool, error) {
	s.mu.Lock()
	known := s.buckets
	s.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	service := s.client.HTTPService()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, service.ServerAPIURL()+"setup", nil)
	if err != nil {
		return false, err
	}
	answer, err := service.DoHTTPRequestWithResponse(request, nil)
	if err != nil {
		return false, err
	}
	if err := discard(answer); err != nil {
		return false, err
	}
	has := answer.StatusCode == http.StatusOK
	if !has && answer.StatusCode != http.StatusNotFound {
		return false, &client.Error{StatusCode: answer.StatusCode}
	}
	s.mu.Lock()
	s.buckets = &has
	s.mu.Unlock()
	return has, nil
}

// api calls a method of the interface of 2.x. Its error has a status, which that of the
// official client has not.
func (s *Store) api(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	service := s.client.HTTPService()
	request, err := http.NewRequestWithContext(ctx, method, service.ServerAPIURL()+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	refused := service.DoHTTPRequest(request, nil, func(answer *http.Response) error {
		err := json.NewDecoder(answer.Body).Decode(into)
		return errors.Join(err, discard(answer))
	})
	switch {
	case refused == nil:
		return nil
	case refused.StatusCode == 0:
		return refused.Err
	}
	return refused
}

// isStatus reports whether an error is an answer of that status.
func isStatus(err error, status int) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.StatusCode == status
}

// createBucket creates a bucket that keeps its values for ever.
func (s *Store) createBucket(ctx context.Context, name string) error {
	id, err := s.bucketOf(ctx, name)
	if err != nil || id != "" {
		return err
	}
	var found struct {
		Orgs []struct{ ID string }
	}
	err = s.api(ctx, http.MethodGet, "orgs?"+url.Values{"org": {s.org}}.Encode(), nil, &found)
	if isStatus(err, http.StatusNotFound) || err == nil && len(found.Orgs) == 0 {
		return s.noOrg()
	}
	if err != nil {
		return err
	}
	bucket := domain.PostBucketRequest{Name: name, OrgID: found.Orgs[0].ID, RetentionRules: &domain.RetentionRules{}}
	return s.api(ctx, http.MethodPost, "buckets", bucket, &struct{}{})
}

func (s *Store) noOrg() error { return fmt.Errorf("organisation %q: %w", s.org, ErrOrg) }

// bucketOf returns the id of the bucket that queries of a database read: that of its
// default mapping. It is empty if there is none, or the token may not see it.
func (s *Store) bucketOf(ctx context.Context, database string) (id string, err error) {
	var mappings struct {
		Content []domain.DBRP
	}
	err = s.api(ctx, http.MethodGet, "dbrps?"+url.Values{"org": {s.org}, "db": {database}}.Encode(), nil, &mappings)
	if isStatus(err, http.StatusNotFound) {
		return "", s.noOrg()
	}
	for _, m := range mappings.Content {
		if m.Default && m.Database == database {
			return m.BucketID, nil
		}
	}
	return "", err
}

// Keep implements series.Store. The server deletes whole shards, which are up to a
// week long, once all of their values are too old. Before that, Keep rolls up what they
// hold; it has to be called each hour for that, and the first time may take minutes.
func (s *Store) Keep(ctx context.Context, database string, k series.Keeping) (err error) {
	if err := series.ValidDatabase(database); err != nil {
		return err
	}
	if err := series.ValidKeeping(k); err != nil {
		return err
	}
	defer s.explain(ctx, "keep values of "+database, &err)
	now, policy, err := s.retention(ctx, database)
	if err != nil {
		return err
	}
	if k.Retention == series.AsItIs {
		k.Retention = now
	}
	if k.Retention > 0 {
		if err := s.rollUp(ctx, database, k); err != nil {
			return err
		}
	}
	if k.Retention != now {
		err = s.setRetention(ctx, database, policy, k.Retention)
	}
	if err == nil {
		s.keep(database, s.memory(database)).retain(k.Retention, s.now())
	}
	return err
}

// retention returns that of a database, and on 1.x the name of its policy.
func (s *Store) retention(ctx context.Context, database string) (retention time.Duration, policy string, err error) {
	has, err := s.hasBuckets(ctx)
	if err != nil {
		return 0, "", err
	}
	if has { // which answers the query below with what was set first
		retention, err = s.bucketRetention(ctx, database)
		return retention, "", err
	}
	q := query{}
	q.add("SHOW RETENTION POLICIES ON " + q.bind(database))
	rows, err := s.ask(ctx, database, q)
	if err != nil {
		return 0, "", err
	}
	for _, r := range rows[0] {
		for _, cells := range r.Values {
			if len(cells) != 5 {
				return 0, "", errIncomplete
			}
			if standard, _ := cells[4].(bool); standard {
				text, _ := cells[1].(string)
				policy, _ = cells[0].(string)
				retention, err = time.ParseDuration(text)
				return retention, policy, err
			}
		}
	}
	return 0, "", errIncomplete
}

// bucketRetention returns that of the bucket of a database.
func (s *Store) bucketRetention(ctx context.Context, database string) (time.Duration, error) {
	id, err := s.bucketOf(ctx, database)
	if err != nil {
		return 0, err
	}
	if id == "" {
		return 0, errHidden
	}
	var bucket struct {
		Rules domain.RetentionRules `json:"retentionRules"`
	}
	err = s.api(ctx, http.MethodGet, "buckets/"+url.PathEscape(id), nil, &bucket)
	if err != nil || len(bucket.Rules) == 0 {
		return 0, err
	}
	return time.Duration(bucket.Rules[0].EverySeconds) * time.Second, nil
}

// setRetention changes the policy of a database, or on 2.x its bucket.
func (s *Store) setRetention(ctx context.Context, database, policy string, retention time.Duration) error {
	has, err := s.hasBuckets(ctx)
	if err != nil {
		return err
	}
	shard := int64(shardOf(retention) / time.Second)
	if !has {
		duration := "INF"
		if retention > 0 {
			duration = fmt.Sprintf("%ds", int64(retention/time.Second))
		}
		q := query{}
		q.add(fmt.Sprintf("ALTER RETENTION POLICY %s ON %s DURATION %s SHARD DURATION %ds", q.bind(policy), q.bind(database), duration, shard))
		_, err = s.ask(ctx, database, q)
		return err
	}
	id, err := s.bucketOf(ctx, database)
	if err != nil {
		return err
	}
	if id == "" {
		return errHidden
	}
	expire := domain.RetentionRuleTypeExpire
	change := struct {
		Rules domain.RetentionRules `json:"retentionRules"`
	}{domain.RetentionRules{{EverySeconds: int64(retention / time.Second), ShardGroupDurationSeconds: &shard, Type: &expire}}}
	return s.api(ctx, http.MethodPatch, "buckets/"+url.PathEscape(id), change, &struct{}{})
}

// shardOf returns how long the shards of a database are, as the server chooses it.
func shardOf(retention time.Duration) time.Duration {
	const day = 24 * time.Hour
	switch {
	case retention == 0 || retention > 180*day:
		return 7 * day
	case retention >= 2*day:
		return day
	}
	return time.Hour
}

// CountBefore implements series.Store.
func (s *Store) CountBefore(ctx context.Context, database string, t time.Time) (count int64, err error) {
	if err := series.ValidDatabase(database); err != nil {
		return 0, err
	}
	defer s.explain(ctx, "count values of "+database, &err)
	q := query{}
	q.add(fmt.Sprintf("SELECT count(*) FROM /.*/ WHERE time < %d", t.UnixNano()))
	rows, err := s.ask(ctx, database, q)
	if err != nil {
		return 0, err
	}
	for _, r := range rows[0] {
		for _, cells := range r.Values {
			for _, cell := range cells[min(1, len(cells)):] { // after the time
				n, _ := number(cell)
				count += int64(n)
			}
		}
	}
	return count, nil
}
