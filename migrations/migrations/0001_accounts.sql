-- Merchants, their accounts (a merchant in one mode), the provider accounts that settle their money, and their keys.
-- Every later table carries account_id and refers to its parents by (account_id, id): a row cannot even name another account's.

CREATE TYPE account_mode AS ENUM ('test', 'live');
CREATE TYPE provider_kind AS ENUM ('mock', 'card_gateway');
CREATE TYPE key_kind AS ENUM ('secret', 'publishable');

CREATE TABLE merchants (
    id         uuid PRIMARY KEY,
    name       text NOT NULL CHECK (name <> ''),
    created_at timestamptz NOT NULL
);

CREATE TABLE accounts (
    id                  uuid PRIMARY KEY,
    merchant_id         uuid NOT NULL REFERENCES merchants (id),
    mode                account_mode NOT NULL,
    name                text NOT NULL CHECK (name <> ''),
    timezone            text NOT NULL,
    -- Where new money goes. Cards, authorizations and payments keep the provider account they were made at.
    provider_account_id uuid NOT NULL,
    partial_capture     boolean NOT NULL DEFAULT true,
    partial_refund      boolean NOT NULL DEFAULT true,
    modifiers           jsonb NOT NULL DEFAULT '{}',
    allowed_origins     text[] NOT NULL DEFAULT '{}',
    -- Requests per second and burst of each key; NULL is the default of the account's mode.
    rate_limit          integer CHECK (rate_limit > 0),
    burst               integer CHECK (burst > 0),
    created_at          timestamptz NOT NULL,
    CONSTRAINT accounts_one_per_mode UNIQUE (merchant_id, mode)
);

CREATE TABLE provider_accounts (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES accounts (id) DEFERRABLE INITIALLY DEFERRED,
    provider   provider_kind NOT NULL,
    -- Operations of /v1 that this one cannot do, beside those its provider never can.
    unsupported text[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    CONSTRAINT provider_accounts_of_account UNIQUE (account_id, id),
    CONSTRAINT provider_accounts_one_per_provider UNIQUE (account_id, provider)
);

ALTER TABLE accounts ADD CONSTRAINT accounts_provider_account
    FOREIGN KEY (id, provider_account_id) REFERENCES provider_accounts (account_id, id) DEFERRABLE INITIALLY DEFERRED;

CREATE TABLE api_keys (
    id             uuid PRIMARY KEY,
    account_id     uuid NOT NULL REFERENCES accounts (id),
    kind           key_kind NOT NULL,
    -- HMAC-SHA256 of the whole key under the pepper: a dump of this table opens nothing.
    key_hash       bytea NOT NULL CHECK (octet_length(key_hash) = 32),
    -- Publishable keys may be seen again, so they are kept whole; a secret key never is.
    key_text       text,
    -- NULL means every entitlement, those of later versions included.
    entitlements   text[],
    -- AES-256-GCM, bound to this row's id; live secret keys only.
    signing_secret bytea,
    created_at     timestamptz NOT NULL,
    revoked_at     timestamptz,
    CONSTRAINT api_keys_only_publishable_is_kept CHECK ((kind = 'publishable') = (key_text IS NOT NULL)),
    CONSTRAINT api_keys_of_account UNIQUE (account_id, id)
);
