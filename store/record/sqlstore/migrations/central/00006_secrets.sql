-- What servers share, encrypted.
CREATE TABLE tsmon.secrets (
    name  text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);
