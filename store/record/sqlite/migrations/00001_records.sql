CREATE TABLE tenants (
    schema_name TEXT PRIMARY KEY,
    ts_name     TEXT NOT NULL,
    settings    TEXT NOT NULL
) STRICT;

CREATE TABLE audits (
    id          INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL, -- microseconds since 1970
    schema_name TEXT NOT NULL, -- as it was given, not necessarily a tenant's
    user_email  TEXT NOT NULL,
    action      TEXT NOT NULL,
    target      TEXT NOT NULL,
    address     TEXT NOT NULL,
    request     TEXT NOT NULL,
    ok          INTEGER NOT NULL
) STRICT;
CREATE INDEX audits_by_schema ON audits (schema_name, id);
