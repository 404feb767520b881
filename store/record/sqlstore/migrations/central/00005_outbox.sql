CREATE TABLE tsmon.outbox (
    id    text COLLATE "C" PRIMARY KEY,
    made  bigint NOT NULL, -- microseconds since 1970, as all times here
    due   bigint, -- when it is sent next; NULL: never, somebody has it
    tries bigint NOT NULL,
    body  bytea NOT NULL
); -- clustered
CREATE INDEX outbox_by_due ON tsmon.outbox (due);

CREATE TABLE tsmon.told (
    channel  text COLLATE "C" PRIMARY KEY, -- empty: when telling began, as a time
    sequence bigint NOT NULL -- the last move that a message tells of
); -- clustered
