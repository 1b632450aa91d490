-- What an operator must know to rotate keys (docs/rotation.md). The version before this one writes and reads none of it.

ALTER TABLE api_keys
    -- Which pepper has made the hash: the beginning of a hash of it. NULL is not known, of keys from before this column.
    ADD COLUMN pepper_id bytea CHECK (octet_length(pepper_id) = 4),
    -- From when on a key that has been replaced is refused; none of any other.
    ADD COLUMN expires_at timestamptz;
