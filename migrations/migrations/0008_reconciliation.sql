-- The sweep from a provider's books to ours: what it charged and we do not know of must not stay unseen.

ALTER TABLE provider_accounts
    -- When the provider's statement is read next, and up to when it has been compared.
    ADD COLUMN reconcile_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN reconciled_until timestamptz;
CREATE INDEX provider_accounts_reconciliation_due ON provider_accounts (reconcile_at);

-- Money that moved at a provider under a reference that none of our operations has. A person must find out whose it is.
CREATE TABLE orphans (
    provider_account_id uuid NOT NULL,
    provider_ref        text NOT NULL,
    account_id          uuid NOT NULL,
    reference           text NOT NULL,
    occurred_at         timestamptz NOT NULL,
    found_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (provider_account_id, provider_ref),
    CONSTRAINT orphans_provider_account FOREIGN KEY (account_id, provider_account_id)
        REFERENCES provider_accounts (account_id, id)
);

CREATE INDEX transactions_statement ON mock.transactions (account, created_at) WHERE unique_reference IS NOT NULL;
