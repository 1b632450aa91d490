-- Nonces of signed live requests. They must outlive Redis: a signature replayed after its loss is refused all the same.

CREATE TABLE request_nonces (
    account_id uuid NOT NULL,
    key_id     uuid NOT NULL,
    nonce      text NOT NULL CHECK (length(nonce) BETWEEN 1 AND 128),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (key_id, nonce),
    CONSTRAINT request_nonces_key FOREIGN KEY (account_id, key_id) REFERENCES api_keys (account_id, id)
);
CREATE INDEX request_nonces_expiry ON request_nonces (expires_at);
