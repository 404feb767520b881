package apitest

import (
	"context"
	"io"
	"iter"
	"strings"
	"sync"

	"tsmon/api/monitor"
	"tsmon/api/monitor/mqtt"
	"tsmon/store/object"
	"tsmon/store/record"
	"tsmon/store/series"
)

// Detail is text of back-end errors that no client may read.
const Detail = "secret detail of 10.0.0.7"

// Outages make the back ends of a world fail.
type Outages struct {
	mu    sync.Mutex
	fault func(ctx context.Context, call string) error
}

// Set makes calls fail whose names begin with one of these, such as records.Tenant,
// series.Current, objects. or messages.Publish. It replaces what was set before.
func (f *Outages) Set(fault func(ctx context.Context) error, calls ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = func(ctx context.Context, call string) error {
		for _, begin := range calls {
			if strings.HasPrefix(call, begin) {
				return fault(ctx)
			}
		}
		return nil
	}
}

// Fail is Set with a fixed error; nil ends all faults.
func (f *Outages) Fail(err error, calls ...string) {
	f.Set(func(context.Context) error { return err }, calls...)
}

func (f *Outages) of(ctx context.Context, call string) error {
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(ctx, call)
}

// through calls a back end unless the call has to fail.
func through[T any](ctx context.Context, f *Outages, call string, next func() (T, error)) (T, error) {
	if err := f.of(ctx, call); err != nil {
		var none T
		return none, err
	}
	return next()
}

// Unsteady puts Outages in front of all back ends of a world.
func Unsteady(w *World) *Outages {
	f := &Outages{}
	w.Records, w.Series = unsteadyRecords{w.Records, f}, unsteadySeries{w.Series, f}
	w.Objects, w.Messages = unsteadyObjects{w.Objects, f}, unsteadyMessages{w.Messages, f}
	return f
}

type unsteadyRecords struct {
	record.Store
	f *Outages
}

func (u unsteadyRecords) Tenants(ctx context.Context) ([]record.Tenant, error) {
	return through(ctx, u.f, "records.Tenants", func() ([]record.Tenant, error) { return u.Store.Tenants(ctx) })
}

func (u unsteadyRecords) Tenant(ctx context.Context, schema string) (record.Tenant, error) {
	return through(ctx, u.f, "records.Tenant", func() (record.Tenant, error) { return u.Store.Tenant(ctx, schema) })
}

func (u unsteadyRecords) User(ctx context.Context, schema, email string) (record.User, error) {
	return through(ctx, u.f, "records.User", func() (record.User, error) { return u.Store.User(ctx, schema, email) })
}

func (u unsteadyRecords) UserByID(ctx context.Context, schema string, id int64) (record.User, error) {
	return through(ctx, u.f, "records.UserByID", func() (record.User, error) { return u.Store.UserByID(ctx, schema, id) })
}

func (u unsteadyRecords) Variables(ctx context.Context, schema string) ([]record.Variable, error) {
	return through(ctx, u.f, "records.Variables", func() ([]record.Variable, error) { return u.Store.Variables(ctx, schema) })
}

func (u unsteadyRecords) VariablesByField(ctx context.Context, schema string, fields []record.Field) (map[record.Field]record.ID, error) {
	return through(ctx, u.f, "records.VariablesByField", func() (map[record.Field]record.ID, error) {
		return u.Store.VariablesByField(ctx, schema, fields)
	})
}

func (u unsteadyRecords) Diagram(ctx context.Context, schema string, id int64) (record.Diagram, error) {
	return through(ctx, u.f, "records.Diagram", func() (record.Diagram, error) { return u.Store.Diagram(ctx, schema, id) })
}

func (u unsteadyRecords) SaveDiagram(ctx context.Context, schema string, d record.Diagram, deleted record.Deleted) (record.DiagramState, error) {
	return through(ctx, u.f, "records.SaveDiagram", func() (record.DiagramState, error) { return u.Store.SaveDiagram(ctx, schema, d, deleted) })
}

func (u unsteadyRecords) Menus(ctx context.Context, schema string) ([]record.Menu, error) {
	return through(ctx, u.f, "records.Menus", func() ([]record.Menu, error) { return u.Store.Menus(ctx, schema) })
}

func (u unsteadyRecords) Permissions(ctx context.Context, schema string, user, profile int64) ([]record.Permission, error) {
	return through(ctx, u.f, "records.Permissions", func() ([]record.Permission, error) {
		return u.Store.Permissions(ctx, schema, user, profile)
	})
}

func (u unsteadyRecords) NotifyConfig(ctx context.Context, schema string) (record.NotifyConfig, error) {
	return through(ctx, u.f, "records.NotifyConfig", func() (record.NotifyConfig, error) { return u.Store.NotifyConfig(ctx, schema) })
}

func (u unsteadyRecords) Charts(ctx context.Context, schema string) ([]record.Chart, error) {
	return through(ctx, u.f, "records.Charts", func() ([]record.Chart, error) { return u.Store.Charts(ctx, schema) })
}

func (u unsteadyRecords) Audit(ctx context.Context, a record.Audit) error {
	_, err := through(ctx, u.f, "records.Audit", func() (any, error) { return nil, u.Store.Audit(ctx, a) })
	return err
}

func (u unsteadyRecords) Ping(ctx context.Context) error {
	_, err := through(ctx, u.f, "records.Ping", func() (any, error) { return nil, u.Store.Ping(ctx) })
	return err
}

type unsteadySeries struct {
	series.Store
	f *Outages
}

func (u unsteadySeries) Current(ctx context.Context, database string, wants []series.Want) ([]series.Value, error) {
	return through(ctx, u.f, "series.Current", func() ([]series.Value, error) { return u.Store.Current(ctx, database, wants) })
}

func (u unsteadySeries) Series(ctx context.Context, database string, ranges []series.Range) ([]series.Result, error) {
	return through(ctx, u.f, "series.Series", func() ([]series.Result, error) { return u.Store.Series(ctx, database, ranges) })
}

func (u unsteadySeries) Write(ctx context.Context, database string, samples []series.Sample) error {
	_, err := through(ctx, u.f, "series.Write", func() (any, error) { return nil, u.Store.Write(ctx, database, samples) })
	return err
}

func (u unsteadySeries) Ping(ctx context.Context) error {
	_, err := through(ctx, u.f, "series.Ping", func() (any, error) { return nil, u.Store.Ping(ctx) })
	return err
}

type unsteadyObjects struct {
	object.Store
	f *Outages
}

func (u unsteadyObjects) Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error) {
	if err := u.f.of(ctx, "objects.Get"); err != nil {
		return nil, object.Info{}, err
	}
	body, info, err := u.Store.Get(ctx, key)
	return unsteadyBody{body, ctx, u.f}, info, err
}

func (u unsteadyObjects) GetRange(ctx context.Context, key, etag string, offset, length int64) (io.ReadCloser, error) {
	return through(ctx, u.f, "objects.GetRange", func() (io.ReadCloser, error) {
		body, err := u.Store.GetRange(ctx, key, etag, offset, length)
		return unsteadyBody{body, ctx, u.f}, err
	})
}

func (u unsteadyObjects) List(ctx context.Context, prefix, after string) iter.Seq2[object.Info, error] {
	if err := u.f.of(ctx, "objects.List"); err != nil {
		return func(yield func(object.Info, error) bool) { yield(object.Info{}, err) }
	}
	return u.Store.List(ctx, prefix, after)
}

func (u unsteadyObjects) Delete(ctx context.Context, keys ...string) error {
	_, err := through(ctx, u.f, "objects.Delete", func() (any, error) { return nil, u.Store.Delete(ctx, keys...) })
	return err
}

func (u unsteadyObjects) Stat(ctx context.Context, key string) (object.Info, error) {
	return through(ctx, u.f, "objects.Stat", func() (object.Info, error) { return u.Store.Stat(ctx, key) })
}

func (u unsteadyObjects) Create(ctx context.Context, key string, r io.Reader, size int64, attrs object.Attributes) (object.Info, error) {
	return through(ctx, u.f, "objects.Create", func() (object.Info, error) { return u.Store.Create(ctx, key, r, size, attrs) })
}

// unsteadyBody can fail while it is read.
type unsteadyBody struct {
	io.ReadCloser
	ctx context.Context // of the call that opened it
	f   *Outages
}

func (u unsteadyBody) Read(p []byte) (int, error) {
	return through(u.ctx, u.f, "objects.Read", func() (int, error) { return u.ReadCloser.Read(p) })
}

type unsteadyMessages struct {
	monitor.Publisher
	f *Outages
}

func (u unsteadyMessages) Publish(ctx context.Context, topic string, payload []byte) (mqtt.Receipt, error) {
	return through(ctx, u.f, "messages.Publish", func() (mqtt.Receipt, error) { return u.Publisher.Publish(ctx, topic, payload) })
}

func (u unsteadyMessages) Ping(ctx context.Context) error {
	_, err := through(ctx, u.f, "messages.Ping", func() (any, error) { return nil, u.Publisher.Ping(ctx) })
	return err
}
