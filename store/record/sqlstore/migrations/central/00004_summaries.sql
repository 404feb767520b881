CREATE TABLE tsmon.summaries (
    channel text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    clients bigint NOT NULL,
    counted bigint NOT NULL, -- microseconds since 1970
    sums    text NOT NULL, -- JSON
    PRIMARY KEY (channel, version)
); -- clustered
