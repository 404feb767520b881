CREATE TABLE tsmon.samples (
    channel    text COLLATE "C" NOT NULL,
    version    text COLLATE "C" NOT NULL, -- empty: the clients of the channel, else the tries of a release
    level      bigint NOT NULL,
    below      bytea NOT NULL, -- the ids that are in the sample
    of_network bigint NOT NULL, -- the most tries of one network; 0: any number
    refused    bigint, -- when a client of the release last found no room, in microseconds since 1970
    PRIMARY KEY (channel, version)
); -- clustered
