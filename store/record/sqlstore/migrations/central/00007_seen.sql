-- The ends of the logs of channels, as servers have seen them.
CREATE TABLE tsmon.seen (
    channel  text COLLATE "C" PRIMARY KEY,
    sequence bigint NOT NULL,
    hash     text NOT NULL
); -- clustered
