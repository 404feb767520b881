-- A field has one series for each set of tags, which is kept as it stands in line
-- protocol. Numbers and booleans (1 and 0) of a field share a column. Times are
-- nanoseconds since 1970.
CREATE TABLE databases (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE fields (
    id          INTEGER PRIMARY KEY,
    database    INTEGER NOT NULL REFERENCES databases,
    measurement TEXT NOT NULL,
    name        TEXT NOT NULL,
    kind        INTEGER NOT NULL,
    UNIQUE (database, measurement, name)
) STRICT;
CREATE TABLE streams (
    id    INTEGER PRIMARY KEY,
    field INTEGER NOT NULL REFERENCES fields,
    tags  TEXT NOT NULL,
    UNIQUE (field, tags)
) STRICT;
CREATE TABLE points (
    stream INTEGER NOT NULL REFERENCES streams,
    time   INTEGER NOT NULL,
    value  ANY NOT NULL,
    PRIMARY KEY (stream, time)
) STRICT, WITHOUT ROWID;
