-- Passkeys, with which users sign in (WebAuthn). A public key is no secret.
CREATE TABLE user_passkeys (
    id            uuid PRIMARY KEY,
    user_id       uuid NOT NULL REFERENCES users (id),
    -- As its user calls it.
    name          text NOT NULL CONSTRAINT user_passkeys_name CHECK (char_length(name) BETWEEN 1 AND 64),
    -- Chosen by the authenticator.
    credential_id bytea NOT NULL CONSTRAINT user_passkeys_credential_id CHECK (octet_length(credential_id) BETWEEN 1 AND 1023),
    -- In COSE format.
    public_key    bytea NOT NULL CONSTRAINT user_passkeys_public_key CHECK (octet_length(public_key) BETWEEN 1 AND 2048),
    -- By its number in COSE.
    algorithm     integer NOT NULL,
    -- The signatures that the authenticator has counted at the last one; 0 if it does not count.
    counter       bigint NOT NULL CONSTRAINT user_passkeys_counter CHECK (counter BETWEEN 0 AND 4294967295),
    created_at    timestamptz NOT NULL,
    last_used_at  timestamptz,
    CONSTRAINT user_passkeys_once UNIQUE (credential_id)
);

CREATE INDEX user_passkeys_of_user ON user_passkeys (user_id, id);

-- What a browser was given to sign, until it is used once or has expired.
CREATE TABLE user_passkey_challenges (
    -- SHA-256 of the cookie of the browser: that of the session in which a passkey is made, or one for a sign-in.
    cookie_hash bytea PRIMARY KEY CONSTRAINT user_passkey_challenges_cookie_hash CHECK (octet_length(cookie_hash) = 32),
    -- Who makes a passkey; NULL of a sign-in.
    user_id     uuid REFERENCES users (id),
    state       jsonb NOT NULL,
    created_at  timestamptz NOT NULL
);

CREATE INDEX user_passkey_challenges_created ON user_passkey_challenges (created_at);

-- By which authenticators know the user: random, so that it tells nothing. NULL until the first passkey is made.
ALTER TABLE users ADD COLUMN passkey_handle bytea;
ALTER TABLE users ADD CONSTRAINT users_passkey_handle CHECK (octet_length(passkey_handle) = 32) NOT VALID;
