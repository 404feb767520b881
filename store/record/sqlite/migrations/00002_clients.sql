CREATE TABLE clients (
    channel TEXT NOT NULL,
    client  BLOB NOT NULL, -- a digest
    version TEXT NOT NULL,
    target  TEXT NOT NULL,
    cohort  TEXT NOT NULL,
    seen    INTEGER NOT NULL, -- microseconds since 1970, as all times here
    PRIMARY KEY (channel, client)
) STRICT, WITHOUT ROWID;
CREATE INDEX clients_by_version ON clients (channel, version, target, cohort, seen);

CREATE TABLE tries (
    channel    TEXT NOT NULL,
    version    TEXT NOT NULL,
    client     BLOB NOT NULL,
    asked      INTEGER NOT NULL,
    downloaded INTEGER,
    installed  INTEGER,
    running    INTEGER,
    failed     INTEGER,
    crashed    INTEGER,
    kept       INTEGER, -- the latest asked that was later than a download
    kept_from  INTEGER, -- that download
    seen       INTEGER NOT NULL AS (max(asked, coalesce(downloaded, asked), coalesce(installed, asked),
        coalesce(running, asked), coalesce(failed, asked), coalesce(crashed, asked))), -- the latest of all
    PRIMARY KEY (channel, version, client)
) STRICT, WITHOUT ROWID;
CREATE INDEX tries_by_client ON tries (client, version);
CREATE INDEX tries_by_time ON tries (channel, version, seen);
