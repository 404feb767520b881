CREATE TABLE {schema}.counters (
    only_row     INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    next_diagram INTEGER NOT NULL DEFAULT 1,
    next_object  INTEGER NOT NULL DEFAULT 1
) STRICT;
INSERT INTO {schema}.counters DEFAULT VALUES;

CREATE TABLE {schema}.users (
    id            INTEGER PRIMARY KEY,
    email         TEXT NOT NULL,
    email_key     TEXT NOT NULL UNIQUE,
    profile       INTEGER NOT NULL,
    admin         INTEGER NOT NULL,
    disabled      INTEGER NOT NULL,
    token_version INTEGER NOT NULL DEFAULT 1,
    token_digest  BLOB
) STRICT;

CREATE TABLE {schema}.variables (
    key         TEXT PRIMARY KEY,
    is_integer  INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    name        TEXT NOT NULL,
    unit        TEXT,
    type        TEXT NOT NULL,
    calc        INTEGER NOT NULL,
    equation    TEXT,
    status      INTEGER NOT NULL,
    vars_ts     TEXT NOT NULL,
    measurement TEXT NOT NULL, -- of form A, else empty
    field       TEXT NOT NULL
) STRICT;
CREATE INDEX {schema}.variables_by_field ON {schema}.variables (measurement, field);

CREATE TABLE {schema}.diagrams (
    id   INTEGER PRIMARY KEY,
    head TEXT NOT NULL -- JSON: the diagram without its id and objects
) STRICT;

CREATE TABLE {schema}.objects (
    kind     TEXT NOT NULL CHECK (kind IN ('line', 'image', 'text', 'polyline')),
    id       INTEGER NOT NULL,
    diagram  INTEGER NOT NULL REFERENCES {schema}.diagrams ON DELETE CASCADE,
    variable TEXT, -- key of a variable, which need not be there
    members  TEXT NOT NULL, -- JSON: all members but the id, as they came
    PRIMARY KEY (kind, id)
) STRICT;
CREATE INDEX {schema}.objects_by_diagram ON {schema}.objects (diagram, kind, id);

CREATE TABLE {schema}.menus (
    id     INTEGER PRIMARY KEY,
    name   TEXT NOT NULL,
    icon   TEXT NOT NULL,
    path   TEXT NOT NULL,
    status INTEGER NOT NULL
) STRICT;

CREATE TABLE {schema}.permissions (
    id      INTEGER PRIMARY KEY,
    menu    INTEGER NOT NULL REFERENCES {schema}.menus ON DELETE CASCADE,
    profile INTEGER,
    user_id INTEGER,
    status  INTEGER NOT NULL,
    CHECK ((profile IS NULL) <> (user_id IS NULL))
) STRICT;
CREATE INDEX {schema}.permissions_by_user ON {schema}.permissions (user_id);
CREATE INDEX {schema}.permissions_by_profile ON {schema}.permissions (profile);

CREATE TABLE {schema}.notifications (
    kind    TEXT NOT NULL,
    brand   TEXT NOT NULL,
    version TEXT NOT NULL,
    entries TEXT NOT NULL, -- JSON
    PRIMARY KEY (kind, brand, version)
) STRICT;

CREATE TABLE {schema}.charts (
    key      TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    chart    TEXT NOT NULL -- JSON, with its id
) STRICT;
