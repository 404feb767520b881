-- Writes to databases of time series that no server made.
CREATE TABLE tsmon.writes (
    ts_name text COLLATE "C" PRIMARY KEY,
    count   bigint NOT NULL
);
