-- Writes to databases of time series that no server made.
CREATE TABLE tsmon.writes (
    ts_name text COLLATE "C" PRIMARY KEY,
    count   bigint NOT NULL
);

-- What is written to see whether the disk takes it.
CREATE TABLE tsmon.room (
    id     integer PRIMARY KEY,
    filler bytea NOT NULL
);
