-- Accounts: who may use the gateway, and what the operator has set for them.

CREATE TABLE gateway.accounts (
    id                   uuid PRIMARY KEY,
    username             text NOT NULL CONSTRAINT accounts_username UNIQUE CHECK (username ~ '^[A-Za-z0-9._-]{3,64}$'),
    -- Shown to cardholders.
    name                 text NOT NULL CHECK (name <> ''),
    -- A keyed hash: the key itself is shown once and kept nowhere.
    api_key_hash         bytea NOT NULL CHECK (octet_length(api_key_hash) = 32),
    -- The 16 characters with which callers encrypt card numbers; encrypted, bound to the id.
    secret_key_sealed    bytea NOT NULL,
    -- MD5 of user name and secret key: what scripts in a browser call the account by.
    app_key              text NOT NULL CONSTRAINT accounts_app_key UNIQUE CHECK (app_key ~ '^[0-9a-f]{32}$'),
    time_zone            text NOT NULL DEFAULT 'UTC',
    currencies           text[] NOT NULL CHECK (cardinality(currencies) > 0),
    -- Load balancer rules: brands that no processor takes for this account.
    refused_brands       text[] NOT NULL DEFAULT '{}',
    -- Whether a sale asks for the card's security code.
    cvv_required         boolean NOT NULL DEFAULT false,
    three_ds             boolean NOT NULL DEFAULT true,
    -- Whether a card that cannot be authenticated by 3-D Secure is declined.
    deny_unauthenticated boolean NOT NULL DEFAULT false,
    -- Codes 17 to 20. Amounts in hundredths, in each currency.
    sale_limit           bigint NOT NULL DEFAULT 1000000 CHECK (sale_limit > 0),
    monthly_limit        bigint NOT NULL DEFAULT 100000000 CHECK (monthly_limit > 0),
    daily_transactions   integer NOT NULL DEFAULT 1000 CHECK (daily_transactions > 0),
    hourly_per_address   integer NOT NULL DEFAULT 20 CHECK (hourly_per_address > 0),
    created_at           timestamptz NOT NULL
);

-- How much of its limits an account has used. Whoever enters a transaction holds the row until the commit, so that entries of
-- one account count one after another and no limit is passed by two at once.
CREATE TABLE gateway.usage (
    account_id   uuid PRIMARY KEY REFERENCES gateway.accounts (id),
    day          date NOT NULL,
    transactions integer NOT NULL CHECK (transactions > 0)
) WITH (fillfactor = 50);

-- What was sold or authorized in a month of the account's zone, and not declined.
CREATE TABLE gateway.volumes (
    account_id uuid NOT NULL REFERENCES gateway.accounts (id),
    month      date NOT NULL,
    currency   text NOT NULL,
    amount     bigint NOT NULL CHECK (amount >= 0),
    PRIMARY KEY (account_id, month, currency)
) WITH (fillfactor = 50);
