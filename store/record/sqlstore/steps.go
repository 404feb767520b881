package sqlstore

import (
	"embed"
	"io/fs"
	"regexp"
	"strings"
)

//go:embed migrations
var migrations embed.FS

// The parts of a database's structure.
const (
	Central = "central" // the schema tsmon, which the adapter creates
	Tenant  = "tenant"  // {schema}
)

// Steps returns the steps that build up a part, in order. An adapter applies each once.
func Steps(part string) ([]string, error) {
	names, err := fs.Glob(migrations, "migrations/"+part+"/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	steps := make([]string, len(names))
	for i, name := range names {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		steps[i] = string(text)
	}
	return steps, nil
}

var table = regexp.MustCompile(`CREATE TABLE ({schema}\.\w+)`)

// Tables returns the tables of a tenant as {schema}.name, each after those that it refers to.
func Tables() (names []string, err error) {
	steps, err := Steps(Tenant)
	for _, found := range table.FindAllStringSubmatch(strings.Join(steps, "\n"), -1) {
		names = append(names, found[1])
	}
	return names, err
}
