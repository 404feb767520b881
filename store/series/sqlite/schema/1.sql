-- A field has one series for each set of tags, which is kept as it stands in line
-- protocol. Times are nanoseconds since 1970; a day is a UTC day, counted from then.
CREATE TABLE databases (
    id        INTEGER PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE,
    retention INTEGER NOT NULL DEFAULT 0, -- of points, in nanoseconds; 0 for ever
    parts     INTEGER NOT NULL DEFAULT 1, -- of an hour, in new rollups
    stale     INTEGER NOT NULL DEFAULT 0, -- 1 while there may be other ones
    first     INTEGER NOT NULL DEFAULT -131072 -- day before which there are no points
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

-- What has been written since a series was packed: a block for each write and day.
-- Of points with the same time, that of the greatest write counts, and any of them
-- before that of the day's block. The first point of a chunk is its base.
CREATE TABLE chunks (
    stream INTEGER NOT NULL,
    last   INTEGER NOT NULL, -- time of the last point
    write  INTEGER NOT NULL,
    span   INTEGER NOT NULL, -- from the first point to the last
    data   BLOB NOT NULL,
    PRIMARY KEY (stream, last, write)
) STRICT, WITHOUT ROWID;
CREATE TABLE writes (count INTEGER NOT NULL) STRICT;
INSERT INTO writes VALUES (0);

-- The packed points of a series, a block for each day, whose midnight is its base.
CREATE TABLE blocks (
    id    INTEGER PRIMARY KEY, -- stream << 18 | day + 1 << 17
    last  INTEGER NOT NULL,    -- time of the last point
    count INTEGER NOT NULL,    -- of points
    data  BLOB NOT NULL
) STRICT;

-- What the points of a day amount to in each part of it. A day of few points has no
-- row as long as it has a block. The row stays longer than the block.
CREATE TABLE rollups (
    id    INTEGER PRIMARY KEY, -- as in blocks
    parts INTEGER NOT NULL,    -- of an hour: 1, 2 or 4
    data  BLOB NOT NULL
) STRICT;

-- Text is not packed.
CREATE TABLE texts (
    stream INTEGER NOT NULL,
    time   INTEGER NOT NULL,
    value  TEXT NOT NULL,
    PRIMARY KEY (stream, time)
) STRICT, WITHOUT ROWID;
