-- The second factor of a user, who has one if there is a secret (RFC 6238).
ALTER TABLE users
    -- Base32, sealed with ENCRYPTION_KEY.
    ADD COLUMN totp_secret          bytea,
    -- The time step of the last code that was accepted: a code is accepted once.
    ADD COLUMN totp_step            bigint,
    -- SHA-256 of the codes that replace a lost device, each once.
    ADD COLUMN recovery_code_hashes bytea[] NOT NULL DEFAULT '{}';

ALTER TABLE user_sessions
    -- What the browser says it is.
    ADD COLUMN user_agent text;

-- A sign-in whose password was right, and whose code is awaited.
CREATE TABLE user_sign_ins (
    -- SHA-256 of the cookie.
    cookie_hash bytea PRIMARY KEY CHECK (octet_length(cookie_hash) = 32),
    user_id     uuid NOT NULL REFERENCES users (id),
    created_at  timestamptz NOT NULL
);

CREATE INDEX user_sign_ins_of_user ON user_sign_ins (user_id);
CREATE INDEX user_sign_ins_created ON user_sign_ins (created_at);

-- An invitation to become a user, by a link that works once.
CREATE TABLE user_invitations (
    id          uuid PRIMARY KEY,
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    email       text NOT NULL CHECK (char_length(email) BETWEEN 3 AND 254),
    role        user_role NOT NULL,
    -- SHA-256 of the token in the link.
    token_hash  bytea NOT NULL CHECK (octet_length(token_hash) = 32),
    -- It ends when this user is no longer an owner.
    invited_by  uuid NOT NULL REFERENCES users (id),
    created_at  timestamptz NOT NULL,
    -- When it was accepted or revoked.
    ended_at    timestamptz
);

CREATE UNIQUE INDEX user_invitations_token ON user_invitations (token_hash);
CREATE INDEX user_invitations_open ON user_invitations (merchant_id, created_at) WHERE ended_at IS NULL;

ALTER TABLE user_actions
    -- What is shown once after it was made, such as a new API key; sealed with ENCRYPTION_KEY, and removed when it is shown.
    ADD COLUMN secret bytea;
