CREATE TABLE format (version integer NOT NULL);
INSERT INTO format VALUES (1);
CREATE TABLE token (
    serial text PRIMARY KEY,
    slot bigint NOT NULL,
    label bytea NOT NULL,
    so_pin bytea NOT NULL,
    so_failures bigint NOT NULL,
    user_pin bytea NOT NULL,
    user_failures bigint NOT NULL,
    change bigint NOT NULL,
    summary bytea NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE object (
    serial text NOT NULL REFERENCES token ON DELETE CASCADE,
    id bigint NOT NULL,
    private boolean NOT NULL,
    tag bytea NOT NULL,
    names bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (serial, id)
);
CREATE TABLE attempt (
    id bigint PRIMARY KEY,
    serial text NOT NULL,
    role smallint NOT NULL,
    expires timestamptz NOT NULL
);
