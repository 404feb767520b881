CREATE SCHEMA {schema};

-- The one row is also what writers of the tenant lock.
CREATE TABLE {schema}.counters (
    only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    next_diagram bigint NOT NULL DEFAULT 1,
    next_object  bigint NOT NULL DEFAULT 1,
    next_user    bigint NOT NULL DEFAULT 1 -- no id of a deleted user is given again
);
INSERT INTO {schema}.counters DEFAULT VALUES;

CREATE TABLE {schema}.users (
    id            bigint PRIMARY KEY,
    email         text NOT NULL,
    email_key     text COLLATE "C" NOT NULL UNIQUE,
    profile       bigint NOT NULL,
    admin         boolean NOT NULL,
    disabled      boolean NOT NULL,
    token_version bigint NOT NULL,
    token_digest  bytea
);

CREATE TABLE {schema}.variables (
    key         text COLLATE "C" PRIMARY KEY,
    is_integer  boolean NOT NULL,
    position    bigint NOT NULL,
    name        text NOT NULL,
    unit        text,
    type        text NOT NULL,
    calc        boolean NOT NULL,
    equation    text,
    status      boolean NOT NULL,
    vars_ts     json NOT NULL,
    measurement text NOT NULL, -- of form A, else empty
    field       text NOT NULL
);
CREATE INDEX variables_by_field ON {schema}.variables (measurement, field);

CREATE TABLE {schema}.diagrams (
    id       bigint PRIMARY KEY,
    head     json NOT NULL, -- the diagram without its id, version and objects
    version  bigint NOT NULL,
    saved_by text NOT NULL,
    saved_at bigint -- milliseconds since 1970; NULL if it was imported
);

-- What diagrams were before they were saved.
CREATE TABLE {schema}.states (
    diagram  bigint NOT NULL REFERENCES {schema}.diagrams ON DELETE CASCADE,
    version  bigint NOT NULL,
    title    text NOT NULL,
    saved_by text NOT NULL,
    saved_at bigint,
    state    json NOT NULL, -- with the objects
    PRIMARY KEY (diagram, version)
);

CREATE TABLE {schema}.objects (
    kind     text COLLATE "C" NOT NULL CHECK (kind IN ('line', 'image', 'text', 'polyline')),
    id       bigint NOT NULL,
    diagram  bigint NOT NULL REFERENCES {schema}.diagrams ON DELETE CASCADE,
    variable text COLLATE "C", -- key of a variable, which need not be there
    members  json NOT NULL, -- all members but the id, as they came: jsonb would change them
    PRIMARY KEY (kind, id)
);
CREATE INDEX objects_by_diagram ON {schema}.objects (diagram, kind, id);

CREATE TABLE {schema}.menus (
    id     bigint PRIMARY KEY,
    name   text NOT NULL,
    icon   text NOT NULL,
    path   text NOT NULL,
    status boolean NOT NULL
);

CREATE TABLE {schema}.permissions (
    id      bigint PRIMARY KEY,
    menu    bigint NOT NULL REFERENCES {schema}.menus ON DELETE CASCADE,
    profile bigint,
    user_id bigint,
    status  boolean NOT NULL,
    CHECK ((profile IS NULL) <> (user_id IS NULL))
);
CREATE INDEX permissions_by_user ON {schema}.permissions (user_id);
CREATE INDEX permissions_by_profile ON {schema}.permissions (profile);

CREATE TABLE {schema}.notifications (
    kind    text COLLATE "C" NOT NULL,
    brand   text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    entries json NOT NULL,
    PRIMARY KEY (kind, brand, version)
);

CREATE TABLE {schema}.charts (
    key      text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL,
    chart    json NOT NULL -- with its id
);
