CREATE TABLE tsmon.tenants (
    schema_name text COLLATE "C" PRIMARY KEY,
    ts_name     text NOT NULL,
    settings    json NOT NULL
);

CREATE TABLE tsmon.audits (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          bigint NOT NULL, -- microseconds since 1970
    schema_name text NOT NULL, -- as it was given, not necessarily a tenant's
    user_email  text NOT NULL,
    action      text NOT NULL,
    target      text NOT NULL,
    address     text NOT NULL,
    request     text NOT NULL,
    ok          boolean NOT NULL
);
CREATE INDEX audits_by_schema ON tsmon.audits (schema_name, id);
