-- The tables of a list of issued certificates.
CREATE TABLE authority (
    id TEXT PRIMARY KEY,
    subject TEXT NOT NULL,
    certificate BLOB NOT NULL,
    above BLOB NOT NULL,
    crl_number INTEGER NOT NULL DEFAULT 0,
    crl_start INTEGER,
    crl_end INTEGER,
    crl_file TEXT,
    unsure INTEGER NOT NULL
) STRICT;
CREATE TABLE certificate (
    id INTEGER PRIMARY KEY,
    authority TEXT NOT NULL REFERENCES authority (id),
    serial TEXT NOT NULL,
    profile TEXT NOT NULL,
    subject TEXT NOT NULL,
    names TEXT NOT NULL,
    not_before INTEGER,
    not_after INTEGER,
    revoked INTEGER,
    reason INTEGER,
    remark TEXT,
    der BLOB,
    UNIQUE (authority, serial)
) STRICT;
