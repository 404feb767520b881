package influx

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/influxdata/influxdb-client-go/v2/domain"
)

// make creates a database if it does not exist.
func (s *server) make(ctx context.Context, database string) error {
	has, err := s.hasBuckets(ctx)
	if err != nil {
		return err
	}
	if has {
		return s.createBucket(ctx, database)
	}
	q := s.query()
	q.add("CREATE DATABASE " + q.bind(database))
	_, err = s.ask(ctx, "", q)
	return err
}

// createBucket creates a bucket that keeps its values for ever.
func (s *server) createBucket(ctx context.Context, name string) error {
	if _, err := s.bucketOf(ctx, name); !errors.Is(err, errHidden) {
		return err
	}
	var found struct {
		Orgs []struct{ ID string }
	}
	err := s.api(ctx, http.MethodGet, "orgs?"+url.Values{"org": {s.org}}.Encode(), nil, &found)
	if isStatus(err, http.StatusNotFound) || err == nil && len(found.Orgs) == 0 {
		return s.noOrg()
	}
	if err != nil {
		return err
	}
	bucket := domain.PostBucketRequest{Name: name, OrgID: found.Orgs[0].ID, RetentionRules: &domain.RetentionRules{}}
	return s.api(ctx, http.MethodPost, "buckets", bucket, &struct{}{})
}

func (s *server) noOrg() error { return fmt.Errorf("organisation %q: %w", s.org, ErrOrg) }

// bucketOf returns the ID of the bucket that queries of a database read: that of its default
// mapping. The error is errHidden if there is none or the token may not see it.
func (s *server) bucketOf(ctx context.Context, database string) (id string, err error) {
	var mappings struct {
		Content []domain.DBRP
	}
	err = s.api(ctx, http.MethodGet, "dbrps?"+url.Values{"org": {s.org}, "db": {database}}.Encode(), nil, &mappings)
	switch {
	case isStatus(err, http.StatusNotFound):
		return "", s.noOrg()
	case err != nil:
		return "", err
	}
	for _, m := range mappings.Content {
		if m.Default && m.Database == database {
			return m.BucketID, nil
		}
	}
	return "", errHidden
}

// retention returns the retention of a database, and on 1.x the name of its policy.
func (s *server) retention(ctx context.Context, database string) (retention time.Duration, policy string, err error) {
	has, err := s.hasBuckets(ctx)
	if err != nil {
		return 0, "", err
	}
	if has { // it answers the query below with the retention that was set first
		retention, err = s.bucketRetention(ctx, database)
		return retention, "", err
	}
	q := s.query()
	q.add("SHOW RETENTION POLICIES ON " + q.bind(database))
	rows, err := s.ask(ctx, database, q)
	if err != nil {
		return 0, "", err
	}
	for _, r := range rows[0] {
		for _, cells := range r.Values {
			if len(cells) < 5 || len(cells) != len(r.Columns) {
				return 0, "", errIncomplete
			}
			if standard, _ := cells[len(cells)-1].(bool); standard { // other columns stand between
				text, _ := cells[1].(string)
				policy, _ = cells[0].(string)
				retention, err = time.ParseDuration(text)
				return retention, policy, err
			}
		}
	}
	return 0, "", errIncomplete
}

func (s *server) bucketRetention(ctx context.Context, database string) (time.Duration, error) {
	id, err := s.bucketOf(ctx, database)
	if err != nil {
		return 0, err
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
func (s *server) setRetention(ctx context.Context, database, policy string, retention time.Duration) error {
	has, err := s.hasBuckets(ctx)
	if err != nil {
		return err
	}
	shard := int64(shardOf(retention) / time.Second)
	if !has {
		duration := "0s" // for ever
		if retention > 0 {
			duration = fmt.Sprintf("%ds", int64(retention/time.Second))
		}
		q := s.query()
		q.add(fmt.Sprintf("ALTER RETENTION POLICY %s ON %s DURATION %s SHARD DURATION %ds", q.bind(policy), q.bind(database), duration, shard))
		_, err = s.ask(ctx, database, q)
		return err
	}
	id, err := s.bucketOf(ctx, database)
	if err != nil {
		return err
	}
	expire := domain.RetentionRuleTypeExpire
	change := struct {
		Rules domain.RetentionRules `json:"retentionRules"`
	}{domain.RetentionRules{{EverySeconds: int64(retention / time.Second), ShardGroupDurationSeconds: &shard, Type: &expire}}}
	return s.api(ctx, http.MethodPatch, "buckets/"+url.PathEscape(id), change, &struct{}{})
}

// shardOf returns the length of shards that the server chooses for a retention.
func shardOf(retention time.Duration) time.Duration {
	switch {
	case retention == 0 || retention > 180*day:
		return 7 * day
	case retention >= 2*day:
		return day
	}
	return time.Hour
}
