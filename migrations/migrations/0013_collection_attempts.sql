-- Attempts to collect an invoice, numbered 1 to n. One is written with the payment that it makes, in one transaction.

CREATE TYPE collection_attempt_status AS ENUM ('processing', 'succeeded', 'failed');

CREATE TABLE collection_attempts (
    id                        uuid PRIMARY KEY,
    account_id                uuid NOT NULL,
    invoice_id                uuid NOT NULL,
    number                    integer NOT NULL CHECK (number >= 1),
    status                    collection_attempt_status NOT NULL,
    amount                    bigint NOT NULL CHECK (amount BETWEEN 1 AND 9007199254740991),
    -- None if there was no card to charge.
    payment_id                uuid,
    decline_code              text,
    decline_type              decline_type,
    attempted_at              timestamptz NOT NULL,
    next_attempt_at           timestamptz,
    CONSTRAINT collection_attempts_number UNIQUE (account_id, invoice_id, number),
    CONSTRAINT collection_attempts_payment UNIQUE (account_id, payment_id),
    CONSTRAINT collection_attempts_invoice FOREIGN KEY (account_id, invoice_id) REFERENCES invoices (account_id, id),
    CONSTRAINT collection_attempts_paid_by FOREIGN KEY (account_id, payment_id) REFERENCES payments (account_id, id),
    CONSTRAINT collection_attempts_failure_is_whole
        CHECK ((status = 'failed') = (decline_code IS NOT NULL) AND (decline_code IS NULL) = (decline_type IS NULL)),
    CONSTRAINT collection_attempts_without_card_fail CHECK (payment_id IS NOT NULL OR status = 'failed'),
    CONSTRAINT collection_attempts_only_failed_is_retried CHECK (next_attempt_at IS NULL OR status = 'failed')
);

-- An invoice is collected by one attempt at a time.
CREATE UNIQUE INDEX collection_attempts_one_in_flight ON collection_attempts (account_id, invoice_id)
    WHERE status = 'processing';

-- A partial authorization never pays an invoice or a link: it is reversed. If it settles before it can be voided it is
-- refunded, and after that it is as dead as a void one. Nothing has been refunded under these indexes so far.
DROP INDEX payments_one_live_per_invoice;
CREATE UNIQUE INDEX payments_one_live_per_invoice ON payments (account_id, invoice_id)
    WHERE invoice_id IS NOT NULL AND status NOT IN ('declined', 'failed', 'cancelled', 'expired', 'refunded');
DROP INDEX payments_one_live_per_link;
CREATE UNIQUE INDEX payments_one_live_per_link ON payments (account_id, payment_link_id)
    WHERE payment_link_id IS NOT NULL AND status NOT IN ('declined', 'failed', 'cancelled', 'expired', 'refunded');

-- Nobody waits for a collection: its operation has a queue of its own, and however many invoices fall due at once, only so
-- many are under way. Unknown ones are not counted: a provider that does not answer must not stop everyone's collection.
ALTER TABLE operations ADD COLUMN background boolean NOT NULL DEFAULT false;
CREATE INDEX operations_background ON operations (id) WHERE background AND finished_at IS NULL AND state <> 'unknown';
