-- The ends of logs, each of a channel in a store, as servers have seen them.
CREATE TABLE tsmon.seen (
    log      text COLLATE "C" PRIMARY KEY,
    sequence bigint NOT NULL,
    hash     text NOT NULL,
    manifest bigint NOT NULL -- the newest entry whose manifest was seen in its place, 0 for none
); -- clustered
