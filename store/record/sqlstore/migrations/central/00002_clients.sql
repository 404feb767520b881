CREATE TABLE tsmon.clients (
    channel text COLLATE "C" NOT NULL,
    client  bytea NOT NULL, -- a digest
    version text COLLATE "C" NOT NULL,
    target  text COLLATE "C" NOT NULL,
    cohort  text COLLATE "C" NOT NULL,
    seen    bigint NOT NULL, -- microseconds since 1970, as all times here
    asked   bigint, -- when it asked with target; NULL if it has only reported
    PRIMARY KEY (channel, client)
); -- clustered

CREATE TABLE tsmon.tries (
    channel    text COLLATE "C" NOT NULL,
    version    text COLLATE "C" NOT NULL,
    client     bytea NOT NULL,
    network    bigint NOT NULL, -- a part of the networks, 0 to 65535
    asked      bigint NOT NULL,
    downloaded bigint,
    installed  bigint,
    running    bigint,
    failed     bigint,
    crashed    bigint,
    kept       bigint, -- the latest asked that was later than a download
    kept_from  bigint, -- that download
    round      bigint NOT NULL, -- what follows are the first times in the latest one
    fetched    bigint, -- downloaded or installed
    decided    bigint, -- running, failed or crashed
    fell       bigint, -- failed or crashed
    seen       bigint NOT NULL GENERATED ALWAYS AS (greatest(asked, coalesce(downloaded, asked), coalesce(installed, asked),
        coalesce(running, asked), coalesce(failed, asked), coalesce(crashed, asked))) STORED, -- the latest of all
    PRIMARY KEY (channel, version, client)
); -- clustered
CREATE INDEX tries_by_client ON tsmon.tries (client, version);
