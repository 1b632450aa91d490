-- Keys that were rotated go on holding for a while beside the new ones, so that whoever uses them can be told of the new ones
-- without a refused request. An account has one such set at most; it is deleted when its time is over.

CREATE TABLE gateway.former_keys (
    account_id        uuid PRIMARY KEY REFERENCES gateway.accounts (id),
    api_key_hash      bytea NOT NULL CHECK (octet_length(api_key_hash) = 32),
    secret_key_sealed bytea NOT NULL,
    app_key           text NOT NULL CONSTRAINT former_keys_app_key UNIQUE CHECK (app_key ~ '^[0-9a-f]{32}$'),
    until             timestamptz NOT NULL
);
CREATE INDEX former_keys_by_key ON gateway.former_keys (substring(secret_key_sealed FROM 1 FOR 5));
CREATE INDEX former_keys_to_forget ON gateway.former_keys (until);

-- Under which pepper the API key is hashed: a wrong one is seen by it at the start. NULL is from before this column; it is noted
-- when the key is used.
ALTER TABLE gateway.accounts ADD COLUMN pepper_id bytea CHECK (octet_length(pepper_id) = 4);
