-- What an operator must know to rotate keys (docs/rotation.md). The version before this one writes and reads none of it.

ALTER TABLE api_keys
    -- Which pepper has made the hash: the beginning of a hash of it. NULL is not known, of keys from before this column.
    ADD COLUMN pepper_id bytea CHECK (octet_length(pepper_id) = 4),
    -- From when on a key that has been replaced is refused; none of any other.
    ADD COLUMN expires_at timestamptz;

-- Those that are hashed under another pepper than the current one are in two ranges of it, and among those without one.
CREATE INDEX api_keys_pepper ON api_keys (pepper_id, id) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_ending ON api_keys (expires_at) WHERE expires_at IS NOT NULL AND revoked_at IS NULL;

-- What a process that starts tries its keys on.
CREATE INDEX api_keys_publishable ON api_keys (id) WHERE kind = 'publishable' AND revoked_at IS NULL;
CREATE INDEX api_keys_signing ON api_keys (id) WHERE signing_secret IS NOT NULL AND revoked_at IS NULL;
CREATE INDEX provider_accounts_connected ON provider_accounts (id) WHERE credentials IS NOT NULL;
