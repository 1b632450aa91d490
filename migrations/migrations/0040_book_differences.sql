-- Differences between a provider's books and ours, each recorded once, until a person has found out which are right.

CREATE TABLE book_differences (
    id                  uuid PRIMARY KEY,
    account_id          uuid NOT NULL,
    provider_account_id uuid NOT NULL,
    difference          text NOT NULL
        CHECK (difference IN ('missing_with_us', 'missing_at_provider', 'amount', 'status', 'totals')),
    entry               text NOT NULL CHECK (entry IN ('charge', 'capture', 'void', 'refund', 'credit')),
    -- As the provider has them, or else we; empty where there is none.
    reference           text NOT NULL,
    provider_ref        text NOT NULL,
    payment_id          uuid,
    operation_id        uuid,
    ours                jsonb NOT NULL,
    theirs              jsonb NOT NULL,
    found_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    resolved_at         timestamptz,
    resolution          text,
    CONSTRAINT book_differences_once UNIQUE (provider_account_id, difference, reference, provider_ref),
    CONSTRAINT book_differences_resolved CHECK ((resolved_at IS NULL) = (resolution IS NULL)),
    CONSTRAINT book_differences_provider_account FOREIGN KEY (account_id, provider_account_id)
        REFERENCES provider_accounts (account_id, id),
    CONSTRAINT book_differences_payment FOREIGN KEY (account_id, payment_id) REFERENCES payments (account_id, id),
    CONSTRAINT book_differences_operation FOREIGN KEY (account_id, operation_id) REFERENCES operations (account_id, id)
);
CREATE INDEX book_differences_of_account ON book_differences (account_id, id);
CREATE INDEX book_differences_open ON book_differences (found_at) WHERE resolved_at IS NULL;

-- Up to when what we have as done was looked for in the provider's books, by the time at which its outcome was written.
ALTER TABLE provider_accounts ADD COLUMN books_until timestamptz;
