CREATE TABLE tenants (
    tenant       TEXT PRIMARY KEY,
    ts_name      TEXT NOT NULL,
    settings     TEXT NOT NULL,
    next_diagram INTEGER NOT NULL DEFAULT 1,
    next_object  INTEGER NOT NULL DEFAULT 1
) STRICT;

CREATE TABLE users (
    tenant        TEXT NOT NULL REFERENCES tenants ON DELETE CASCADE,
    id            INTEGER NOT NULL,
    email         TEXT NOT NULL,
    email_key     TEXT NOT NULL,
    profile       INTEGER NOT NULL,
    admin         INTEGER NOT NULL,
    disabled      INTEGER NOT NULL,
    token_version INTEGER NOT NULL,
    token_digest  BLOB,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, email_key)
) STRICT;

CREATE TABLE variables (
    tenant      TEXT NOT NULL REFERENCES tenants ON DELETE CASCADE,
    key         TEXT NOT NULL,
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
    field       TEXT NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT;
CREATE INDEX variables_by_field ON variables (tenant, measurement, field);

CREATE TABLE diagrams (
    tenant TEXT NOT NULL REFERENCES tenants ON DELETE CASCADE,
    id     INTEGER NOT NULL,
    head   TEXT NOT NULL, -- JSON: the diagram without its id and objects
    PRIMARY KEY (tenant, id)
) STRICT;

CREATE TABLE objects (
    tenant   TEXT NOT NULL,
    kind     TEXT NOT NULL CHECK (kind IN ('line', 'image', 'text', 'polyline')),
    id       INTEGER NOT NULL,
    diagram  INTEGER NOT NULL,
    variable TEXT, -- key of a variable, which need not be there
    members  TEXT NOT NULL, -- JSON: all members but the id, as they came
    PRIMARY KEY (tenant, kind, id),
    FOREIGN KEY (tenant, diagram) REFERENCES diagrams ON DELETE CASCADE
) STRICT;
CREATE INDEX objects_by_diagram ON objects (tenant, diagram, kind, id);

CREATE TABLE menus (
    tenant TEXT NOT NULL REFERENCES tenants ON DELETE CASCADE,
    id     INTEGER NOT NULL,
    name   TEXT NOT NULL,
    icon   TEXT NOT NULL,
    path   TEXT NOT NULL,
    status INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;

CREATE TABLE permissions (
    tenant  TEXT NOT NULL,
    id      INTEGER NOT NULL,
    menu    INTEGER NOT NULL,
    profile INTEGER,
    user    INTEGER,
    status  INTEGER NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, menu) REFERENCES menus ON DELETE CASCADE,
    CHECK ((profile IS NULL) <> (user IS NULL))
) STRICT;
CREATE INDEX permissions_by_user ON permissions (tenant, user) WHERE user IS NOT NULL;
CREATE INDEX permissions_by_profile ON permissions (tenant, profile) WHERE profile IS NOT NULL;

CREATE TABLE notifications (
    tenant  TEXT NOT NULL REFERENCES tenants ON DELETE CASCADE,
    kind    TEXT NOT NULL,
    brand   TEXT NOT NULL,
    version TEXT NOT NULL,
    entries TEXT NOT NULL, -- JSON
    PRIMARY KEY (tenant, kind, brand, version)
) STRICT;

CREATE TABLE charts (
    tenant   TEXT NOT NULL REFERENCES tenants ON DELETE CASCADE,
    key      TEXT NOT NULL,
    position INTEGER NOT NULL,
    chart    TEXT NOT NULL, -- JSON, with its id
    PRIMARY KEY (tenant, key)
) STRICT;

CREATE TABLE audits (
    id      INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL, -- microseconds since 1970
    schema  TEXT NOT NULL, -- as it was given, not necessarily a tenant's
    user    TEXT NOT NULL,
    action  TEXT NOT NULL,
    target  TEXT NOT NULL,
    address TEXT NOT NULL,
    request TEXT NOT NULL,
    ok      INTEGER NOT NULL
) STRICT;
CREATE INDEX audits_by_schema ON audits (schema, id);
