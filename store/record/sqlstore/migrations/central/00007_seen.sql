-- The ends of logs, each of a channel in a store, as servers have seen them.
CREATE TABLE tsmon.seen (
    log      text COLLATE "C" PRIMARY KEY,
    sequence bigint NOT NULL,
    hash     text NOT NULL
); -- clustered
