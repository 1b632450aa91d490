-- What users did in the portal. The nonce of a form is stored before anything is done, so that a form that is sent twice has
-- one effect, and both responses show it.
CREATE TABLE user_actions (
    nonce      text PRIMARY KEY CHECK (nonce ~ '^[0-9a-f]{32}$'),
    user_id    uuid NOT NULL REFERENCES users (id),
    account_id uuid NOT NULL REFERENCES accounts (id),
    -- Such as payments.refund.
    action     text NOT NULL,
    -- SHA-256 of what is requested: the same form with other content is refused.
    content    bytea NOT NULL CHECK (octet_length(content) = 32),
    -- The id of the object that is changed, or was created.
    object     text,
    -- The status of /v1's response; NULL until it is known. 202: the outcome at the provider is not known yet.
    status     smallint,
    -- Why it was refused.
    message    text,
    began_at   timestamptz NOT NULL
);

CREATE INDEX user_actions_of_account ON user_actions (account_id, began_at);
