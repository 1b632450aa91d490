-- Card numbers, always encrypted and bound to their row. No column holds one in clear, nor a hash of one without a key.

-- The vault: cards that merchants keep. The token is known by its hash alone.
CREATE TABLE gateway.cards (
    token_hash  bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    account_id  uuid NOT NULL REFERENCES gateway.accounts (id),
    number      bytea NOT NULL,
    brand       text NOT NULL,
    masked      text NOT NULL CHECK (masked ~ '^X+[0-9]{4}$'),
    expiry      text NOT NULL CHECK (expiry ~ '^(0[1-9]|1[0-2])/[0-9]{4}$'),
    -- Name, postal code and country of the cardholder, where they are known.
    holder      jsonb NOT NULL,
    created_at  timestamptz NOT NULL
);

-- Tokens of capture fields, good for one use. Number and security code are there until that use and no longer; what was never
-- used is deleted when it expires.
CREATE TABLE gateway.field_tokens (
    token_hash   bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    account_id   uuid NOT NULL REFERENCES gateway.accounts (id),
    number       bytea,
    security_code bytea,
    brand        text NOT NULL,
    masked       text NOT NULL CHECK (masked ~ '^X+[0-9]{4}$'),
    expiry       text NOT NULL CHECK (expiry ~ '^(0[1-9]|1[0-2])/[0-9]{4}$'),
    holder       jsonb NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    spent_at     timestamptz,
    -- The vault's token that it became, encrypted, so that an answer that was lost can be given again.
    stored_as    bytea,
    -- When the row goes: at the expiry, or a day after its use.
    forget_at    timestamptz NOT NULL,
    CONSTRAINT field_tokens_spent_is_erased
        CHECK (CASE WHEN spent_at IS NULL THEN number IS NOT NULL AND stored_as IS NULL
               ELSE number IS NULL AND security_code IS NULL END)
);
CREATE INDEX field_tokens_to_forget ON gateway.field_tokens (forget_at);

-- Numbers that stand for card numbers on their way through a merchant's server. They belong to nobody until an account uses them.
CREATE TABLE gateway.proxy_numbers (
    proxy_hash bytea PRIMARY KEY CHECK (octet_length(proxy_hash) = 32),
    account_id uuid REFERENCES gateway.accounts (id),
    number     bytea NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX proxy_numbers_to_forget ON gateway.proxy_numbers (expires_at);
