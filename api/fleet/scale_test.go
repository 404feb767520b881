package fleet_test

import (
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"tsmon/api"
	"tsmon/api/apitest"
	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/release"
	"tsmon/store/longtest"
	"tsmon/store/record/postgres"
	"tsmon/store/record/sqlite"
	"tsmon/store/servertest"
)

// BenchmarkFleet measures the cost of fleets of several sizes. Each client asks the dynamic
// address once, as fast as it answers; some have asked before. It reports requests per second
// and their times through the whole handler, memory, the size of the tables, the time of a pass
// of the guard and of a report of adoption, and the error of that report. With TSMON_TEST_LONG
// it also measures 1 and 10 million clients. See SCALE.md.
func BenchmarkFleet(b *testing.B) {
	sizes := []int{100_000}
	if _, long := longtest.Chosen(b); long {
		sizes = append(sizes, 1_000_000, 10_000_000)
	}
	for _, clients := range sizes {
		b.Run(fmt.Sprintf("sqlite/%d", clients), func(b *testing.B) {
			w, folder := apitest.Embedded(b), b.TempDir()
			records, err := sqlite.Open(b.Context(), filepath.Join(folder, "records.db"), sqlite.Limits{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { records.Close() })
			w.Records = records
			benchmarkFleet(b, w, clients, func() (bytes int64) {
				logTables(b, "sqlite", filepath.Join(folder, "records.db"), `SELECT name, sum(pgsize), sum(CASE WHEN pagetype = 'leaf' THEN ncell ELSE 0 END) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT 4`)
				for _, file := range apitest.Must[[]string](b)(filepath.Glob(filepath.Join(folder, "*"))) {
					size := apitest.Must[os.FileInfo](b)(os.Stat(file)).Size()
					b.Logf("%s: %d bytes", filepath.Base(file), size)
					bytes += size
				}
				return bytes
			})
		})
		b.Run(fmt.Sprintf("postgres/%d", clients), func(b *testing.B) {
			w, url := apitest.Embedded(b), servertest.StartPostgres(b).Database()
			records, err := postgres.Open(url, postgres.Limits{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { records.Close() })
			w.Records = records
			benchmarkFleet(b, w, clients, func() (bytes int64) {
				logTables(b, "pgx", url, `SELECT c.relname, pg_relation_size(c.oid), c.reltuples::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
					WHERE n.nspname = 'tsmon' AND c.relkind IN ('r', 'i') ORDER BY 2 DESC LIMIT 5`)
				logTables(b, "pgx", url, `SELECT relname || ' live, dead', n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'tsmon' AND n_live_tup > 100`)
				pool := apitest.Must[*pgxpool.Pool](b)(pgxpool.New(b.Context(), url))
				defer pool.Close()
				err := pool.QueryRow(b.Context(), `SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
					WHERE n.nspname = 'tsmon' AND c.relkind = 'r'`).Scan(&bytes)
				if err != nil {
					b.Fatal(err)
				}
				return bytes
			})
		})
	}
}

// logTables logs the names, bytes and rows that a query finds.
func logTables(b *testing.B, driver, name, query string) {
	db := apitest.Must[*sql.DB](b)(sql.Open(driver, name))
	defer db.Close()
	rows := apitest.Must[*sql.Rows](b)(db.QueryContext(b.Context(), query))
	defer rows.Close()
	for rows.Next() {
		var table string
		var bytes, entries int64
		if err := rows.Scan(&table, &bytes, &entries); err != nil {
			b.Fatal(err)
		}
		b.Logf("%s: %d bytes, %d rows", table, bytes, entries)
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
}

const (
	sampled = 100_000 // clients, the default of server.updates.clients
	askers  = 8       // clients that ask at a time
	updated = 30      // percent of the clients that have the newest release

	metricsKey = "metrics-of-the-benchmark"
)

func benchmarkFleet(b *testing.B, w *apitest.World, clients int, tables func() int64) {
	desk := w.Desk(b)
	desk.PublishVersion(b, "stable", "1.0.0")
	desk.PublishWith(b, "1.1.0", func(o *release.PublishOptions) {
		o.Channel, o.Rollout = "stable", &channels.Rollout{Steps: []int{50}}
	})
	w.MetricsKey = metricsKey
	w.Clients, w.Refresh, w.Log = sampled, time.Second, slog.New(slog.NewJSONHandler(io.Discard, nil))
	server := api.New(w.Options)
	b.Cleanup(server.Close)
	handler := server.Handler()
	server.Watch(b.Context())
	ask(b, handler, min(clients, 3*sampled)) // so that the server knows the sample
	for b.Loop() {
		begun := time.Now()
		times, sent := ask(b, handler, clients)
		took := time.Since(begun)
		b.ReportMetric(float64(clients)/took.Seconds(), "requests/s")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "µs-p99")
		server.Close() // what was seen is recorded then
		b.ReportMetric(metricOf(b, handler, "tsmon_updates_lost_sightings_total"), "lost")
		b.ReportMetric(metricOf(b, handler, "tsmon_updates_unrecorded_total"), "unrecorded")
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		b.ReportMetric(float64(memory.HeapAlloc)/1e6, "MB-heap")
		b.ReportMetric(float64(memory.Sys)/1e6, "MB-of-process")
		b.ReportMetric(float64(tables())/1e6, "MB-tables")

		guards := &fleet.Guards{Default: fleet.Guard{Failures: 2, Networks: 2}, Channels: server.Channels, Records: w.Records, Now: w.Now}
		begun = time.Now()
		if _, err := guards.Judge(b.Context(), "stable", server.Channels()["stable"]); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(begun).Microseconds())/1e3, "ms-guard")

		log := apitest.Must[*channels.Log](b)(channels.Repository{Store: w.Objects}.Load(b.Context(), "stable"))
		begun = time.Now()
		adoption := fleet.NewAdoption(log)
		if err := adoption.ReadRecords(b.Context(), w.Records, w.Now()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(begun).Microseconds())/1e3, "ms-adoption")
		wrong := 0.0
		for _, v := range adoption.Versions {
			wrong = max(wrong, math.Abs(v.Percent-100*float64(sent[v.Version])/float64(clients)))
		}
		b.ReportMetric(wrong, "points-wrong")
		b.ReportMetric(100*math.Abs(float64(adoption.Clients)/float64(clients)-1), "%-wrong")
	}
}

// ask has each client ask once. It returns a sorted sample of the times, and the number of
// clients for each version.
func ask(b *testing.B, handler http.Handler, clients int) ([]time.Duration, map[string]int) {
	var mu sync.Mutex
	var all []time.Duration
	sent := map[string]int{}
	var running sync.WaitGroup
	for n := range askers {
		running.Go(func() {
			var times []time.Duration
			random, own := rand.New(rand.NewPCG(uint64(n), 1)), map[string]int{}
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			for i := n; i < clients; i += askers {
				version := "1.0.0"
				if random.IntN(100) < updated {
					version = "1.1.0"
				}
				own[version]++
				r.URL.Path = "/updates/stable/linux/x86_64/" + version
				r.RemoteAddr = fmt.Sprintf("%d.%d.%d.%d:9", 1+random.IntN(223), random.IntN(256), random.IntN(256), random.IntN(256))
				r.Header = http.Header{apitest.ClientHeader: {fmt.Sprintf("client %d", i)}}
				answer := discard{http.Header{}, new(int)}
				begun := time.Now()
				handler.ServeHTTP(answer, r)
				if i/askers%16 == 0 {
					times = append(times, time.Since(begun))
				}
				if *answer.status != http.StatusOK && *answer.status != http.StatusNoContent {
					b.Errorf("a client is answered %d", *answer.status)
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, times...)
			for version, n := range own {
				sent[version] += n
			}
		})
	}
	running.Wait()
	slices.Sort(all)
	return all, sent
}

// metricOf returns the value of one of the server's metrics.
func metricOf(b *testing.B, handler http.Handler, name string) (value float64) {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Authorization", "Bearer "+metricsKey)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	_, after, ok := strings.Cut(answer.Body.String(), "\n"+name+" ")
	if !ok {
		b.Fatalf("the metrics lack %s", name)
	}
	text, _, _ := strings.Cut(after, "\n")
	return apitest.Must[float64](b)(strconv.ParseFloat(text, 64))
}

// discard is a response writer that keeps only the status.
type discard struct {
	header http.Header
	status *int
}

func (d discard) Header() http.Header            { return d.header }
func (d discard) WriteHeader(status int)         { *d.status = status }
func (d discard) Write(data []byte) (int, error) { return len(data), nil }
