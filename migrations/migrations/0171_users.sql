CREATE TYPE user_role AS ENUM ('owner', 'developer', 'support', 'viewer');

-- A person who signs in to the portal and works in the accounts of a merchant.
CREATE TABLE users (
    id            uuid PRIMARY KEY,
    merchant_id   uuid NOT NULL REFERENCES merchants (id),
    -- In lower case.
    email         text NOT NULL CHECK (char_length(email) BETWEEN 3 AND 254),
    role          user_role NOT NULL,
    -- Argon2id in the PHC string format, with its salt and parameters.
    password_hash text NOT NULL,
    created_at    timestamptz NOT NULL,
    -- The row stays, because it says who did what.
    removed_at    timestamptz
);

CREATE UNIQUE INDEX users_email ON users (email) WHERE removed_at IS NULL;

-- A browser that is signed in, until its session expires or is deleted.
CREATE TABLE user_sessions (
    -- SHA-256 of the cookie: a dump of this table opens nothing.
    cookie_hash  bytea PRIMARY KEY CHECK (octet_length(cookie_hash) = 32),
    user_id      uuid NOT NULL REFERENCES users (id),
    created_at   timestamptz NOT NULL,
    -- To about a minute.
    last_used_at timestamptz NOT NULL
);

CREATE INDEX user_sessions_of_user ON user_sessions (user_id);

-- A user acts in an account as a key that nobody can send: its hash is random, and its entitlements are those of the role.
ALTER TABLE api_keys
    ADD COLUMN user_id uuid;
ALTER TABLE api_keys
    ADD CONSTRAINT api_keys_user FOREIGN KEY (user_id) REFERENCES users (id) NOT VALID;
