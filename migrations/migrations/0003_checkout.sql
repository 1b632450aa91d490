-- Checkout sessions and payment tokens. Both are capabilities of which only a SHA-256 is kept.

CREATE TYPE checkout_intent AS ENUM ('one_time', 'store');

CREATE TABLE checkout_sessions (
    id_hash             bytea PRIMARY KEY CHECK (octet_length(id_hash) = 32),
    account_id          uuid NOT NULL REFERENCES accounts (id),
    provider_account_id uuid NOT NULL,
    intent              checkout_intent NOT NULL,
    origin              text NOT NULL,
    created_at          timestamptz NOT NULL,
    expires_at          timestamptz NOT NULL,
    exchanged_at        timestamptz,
    CONSTRAINT checkout_sessions_provider_account FOREIGN KEY (account_id, provider_account_id)
        REFERENCES provider_accounts (account_id, id)
);
CREATE INDEX checkout_sessions_expiry ON checkout_sessions (expires_at);

CREATE TABLE payment_tokens (
    token_hash          bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    account_id          uuid NOT NULL REFERENCES accounts (id),
    provider_account_id uuid NOT NULL,
    -- The provider's own single-use token; it says nothing of the card.
    upstream_token      text NOT NULL,
    created_at          timestamptz NOT NULL,
    expires_at          timestamptz NOT NULL,
    spent_at            timestamptz,
    CONSTRAINT payment_tokens_provider_account FOREIGN KEY (account_id, provider_account_id)
        REFERENCES provider_accounts (account_id, id)
);
CREATE INDEX payment_tokens_expiry ON payment_tokens (expires_at);
