-- Receipts by e-mail. Who is to have one is noted with the transaction; the row of a receipt is written with its success, and
-- stays when it is done, so that there is one of a transaction for each addressee.

ALTER TABLE gateway.accounts
    -- Where the merchant's own receipts go.
    ADD COLUMN contact_email text CHECK (contact_email <> '');

ALTER TABLE gateway.transactions
    ADD COLUMN receipt_cardholder boolean NOT NULL DEFAULT false,
    ADD COLUMN receipt_merchant   boolean NOT NULL DEFAULT false;

CREATE TABLE gateway.receipts (
    id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    transaction_id uuid NOT NULL REFERENCES gateway.transactions (id),
    addressee      text NOT NULL CHECK (addressee IN ('cardholder', 'merchant')),
    email          text NOT NULL CHECK (email <> ''),
    tries          integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    -- When it is tried next, by the database's clock. Whoever tries puts it off first, so that two do not try at once.
    due_at         timestamptz,
    sent_at        timestamptz,
    given_up_at    timestamptz,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT receipts_once UNIQUE (transaction_id, addressee),
    CONSTRAINT receipts_has_one_state CHECK (num_nonnulls(due_at, sent_at, given_up_at) = 1)
) WITH (fillfactor = 80);
CREATE INDEX receipts_due ON gateway.receipts (due_at) WHERE due_at IS NOT NULL;
