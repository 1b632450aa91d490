-- Payment links: an amount that whoever has the address may pay, once, until it expires.

CREATE TYPE payment_link_status AS ENUM ('open', 'paid', 'cancelled', 'expired');

CREATE TABLE payment_links (
    id            uuid PRIMARY KEY,
    account_id    uuid NOT NULL REFERENCES accounts (id),
    status        payment_link_status NOT NULL DEFAULT 'open',
    amount        bigint NOT NULL CHECK (amount BETWEEN 1 AND 9007199254740991),
    currency      text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    description   text,
    expires_at    timestamptz NOT NULL,
    -- When it is to be marked as expired. None while a payment for it is under way: its outcome decides first.
    expiry_due_at timestamptz,
    paid_at       timestamptz,
    payment_id    uuid,
    cancelled_at  timestamptz,
    -- What the address of its payment page ends with: random, for whoever knows it may pay.
    page_token    text NOT NULL CHECK (length(page_token) >= 32) CONSTRAINT payment_links_page_token UNIQUE,
    created_at    timestamptz NOT NULL,
    -- The list is read along it.
    CONSTRAINT payment_links_of_account UNIQUE (account_id, id),
    CONSTRAINT payment_links_payment FOREIGN KEY (account_id, payment_id) REFERENCES payments (account_id, id),
    CONSTRAINT payment_links_expires_later CHECK (expires_at > created_at),
    CONSTRAINT payment_links_only_open_expires CHECK (expiry_due_at IS NULL OR (status = 'open' AND expiry_due_at = expires_at)),
    CONSTRAINT payment_links_paid_is_paid
        CHECK ((status = 'paid') = (paid_at IS NOT NULL) AND (paid_at IS NULL) = (payment_id IS NULL)),
    CONSTRAINT payment_links_cancelled_at CHECK ((status = 'cancelled') = (cancelled_at IS NOT NULL))
);

-- What is to expire, of everyone and of one account.
CREATE INDEX payment_links_expiry_due ON payment_links (expiry_due_at) WHERE expiry_due_at IS NOT NULL;
CREATE INDEX payment_links_expiry_due_of_account ON payment_links (account_id, expiry_due_at) WHERE expiry_due_at IS NOT NULL;

-- No payment has named a link so far, so NOT VALID spares a reading of the table, as with invoices.
ALTER TABLE payments ADD CONSTRAINT payments_payment_link
    FOREIGN KEY (account_id, payment_link_id) REFERENCES payment_links (account_id, id) NOT VALID;
