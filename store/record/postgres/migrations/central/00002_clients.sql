CREATE TABLE tsmon.clients (
    channel text COLLATE "C" NOT NULL,
    client  bytea NOT NULL, -- a digest
    version text COLLATE "C" NOT NULL,
    target  text COLLATE "C" NOT NULL,
    cohort  text COLLATE "C" NOT NULL,
    seen    bigint NOT NULL, -- microseconds since 1970, as all times here
    PRIMARY KEY (channel, client)
);
CREATE INDEX clients_by_version ON tsmon.clients (channel, version, target, cohort, seen);

CREATE TABLE tsmon.tries (
    channel    text COLLATE "C" NOT NULL,
    version    text COLLATE "C" NOT NULL,
    client     bytea NOT NULL,
    asked      bigint NOT NULL,
    downloaded bigint,
    installed  bigint,
    running    bigint,
    failed     bigint,
    crashed    bigint,
    kept       bigint, -- the latest asked that was later than a download
    kept_from  bigint, -- that download
    seen       bigint NOT NULL GENERATED ALWAYS AS (greatest(asked, downloaded, installed, running, failed, crashed)) STORED,
    PRIMARY KEY (channel, version, client)
);
CREATE INDEX tries_by_client ON tsmon.tries (client, version);
CREATE INDEX tries_by_time ON tsmon.tries (channel, version, seen);
CREATE INDEX clients_to_forget ON tsmon.clients (seen);
CREATE INDEX tries_to_forget ON tsmon.tries (seen);
