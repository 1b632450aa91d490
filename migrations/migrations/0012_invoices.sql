-- Invoices: what a customer owes, from the draft to the payment. What the state machine promises, the constraints refuse to
-- break.

CREATE TYPE invoice_status AS ENUM ('draft', 'open', 'scheduled', 'paid', 'voided');
CREATE TYPE payment_terms AS ENUM ('due_on_receipt', 'net_7', 'net_15', 'net_30', 'net_60');

-- An account's rows refer to it through its customer, as payments do through the provider account.
CREATE TABLE invoices (
    id                        uuid PRIMARY KEY,
    account_id                uuid NOT NULL,
    customer_id               uuid NOT NULL,
    status                    invoice_status NOT NULL DEFAULT 'draft',
    -- Given when it is issued; the account's numbers run without gaps.
    number                    bigint CHECK (number >= 1),
    currency                  text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    amount                    bigint NOT NULL CHECK (amount BETWEEN 1 AND 9007199254740991),
    amount_tax                bigint CHECK (amount_tax >= 0),
    amount_discount           bigint CHECK (amount_discount >= 0),
    amount_paid               bigint NOT NULL DEFAULT 0,
    description               text,
    -- In the order sent. They are written once and read with the invoice alone, so they are no rows of their own.
    items                     jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(items) = 'array'),
    -- What the due date is reckoned from when the invoice is issued; none where the merchant has named the date.
    payment_terms             payment_terms,
    due_at                    timestamptz,
    issued_at                 timestamptz,
    -- When it is to be collected, and with which card; the customer's default card if none is named.
    collect_at                timestamptz,
    collect_payment_method_id uuid,
    next_attempt_at           timestamptz,
    attempt_count             integer NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
    -- The retries are counted from the first attempt of a series. A hard decline, or a new schedule, ends a series.
    series_started_at         timestamptz,
    series_failures           integer NOT NULL DEFAULT 0 CHECK (series_failures >= 0),
    -- The last retry has failed.
    collection_exhausted      boolean NOT NULL DEFAULT false,
    paid_at                   timestamptz,
    payment_id                uuid,
    voided_at                 timestamptz,
    -- What produced it, and for which of its cycles. Their tables come later, and with them the foreign keys.
    recurring_invoice_id      uuid,
    subscription_id           uuid,
    billing_period            text,
    -- What the address of its payment page ends with: random, for whoever knows it may pay.
    page_token                text NOT NULL CONSTRAINT invoices_page_token UNIQUE,
    created_at                timestamptz NOT NULL,
    -- The list is read along it.
    CONSTRAINT invoices_of_account UNIQUE (account_id, id),
    CONSTRAINT invoices_number UNIQUE (account_id, number),
    CONSTRAINT invoices_customer FOREIGN KEY (account_id, customer_id) REFERENCES customers (account_id, id),
    CONSTRAINT invoices_payment FOREIGN KEY (account_id, payment_id) REFERENCES payments (account_id, id),
    -- Only a card of the invoice's own customer.
    CONSTRAINT invoices_collect_payment_method FOREIGN KEY (account_id, customer_id, collect_payment_method_id)
        REFERENCES payment_methods (account_id, customer_id, id),
    CONSTRAINT invoices_parts_need_items CHECK (items <> '[]' OR (amount_tax IS NULL AND amount_discount IS NULL)),
    -- A voided one may have been a draft or an issued one.
    CONSTRAINT invoices_draft_has_no_number CHECK (status = 'voided' OR (status = 'draft') = (number IS NULL)),
    CONSTRAINT invoices_issue_is_whole CHECK ((number IS NULL) = (issued_at IS NULL) AND (number IS NULL OR due_at IS NOT NULL)),
    -- Until it is issued a date and terms exclude each other; then the terms have become a date.
    CONSTRAINT invoices_due_by_date_or_terms CHECK ((due_at IS NULL) <> (payment_terms IS NULL) OR number IS NOT NULL),
    CONSTRAINT invoices_payment_is_whole CHECK (CASE WHEN paid_at IS NULL
        THEN payment_id IS NULL AND amount_paid = 0 ELSE payment_id IS NOT NULL AND amount_paid >= amount END),
    CONSTRAINT invoices_paid_is_paid CHECK (status = 'voided' OR (status = 'paid') = (paid_at IS NOT NULL)),
    CONSTRAINT invoices_only_issued_is_paid CHECK (paid_at IS NULL OR number IS NOT NULL),
    CONSTRAINT invoices_voided_at CHECK ((status = 'voided') = (voided_at IS NOT NULL)),
    CONSTRAINT invoices_scheduled_has_a_date CHECK (status <> 'scheduled' OR collect_at IS NOT NULL),
    CONSTRAINT invoices_only_scheduled_is_attempted CHECK (next_attempt_at IS NULL OR status = 'scheduled'),
    CONSTRAINT invoices_series_is_whole CHECK (series_failures = 0 OR series_started_at IS NOT NULL),
    CONSTRAINT invoices_one_producer CHECK (recurring_invoice_id IS NULL OR subscription_id IS NULL),
    CONSTRAINT invoices_produced_for_a_period
        CHECK ((billing_period IS NOT NULL) = (recurring_invoice_id IS NOT NULL OR subscription_id IS NOT NULL))
);

-- Collection: what is due, of everyone and of one account; and which invoices of a customer wait for another card.
CREATE INDEX invoices_collection_due ON invoices (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX invoices_collection_due_of_account ON invoices (account_id, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX invoices_waiting_for_card ON invoices (account_id, customer_id)
    WHERE status = 'scheduled' AND next_attempt_at IS NULL;

-- A cycle that is run twice produces one invoice.
CREATE UNIQUE INDEX invoices_one_per_recurring_period ON invoices (account_id, recurring_invoice_id, billing_period)
    WHERE recurring_invoice_id IS NOT NULL;
CREATE UNIQUE INDEX invoices_one_per_subscription_period ON invoices (account_id, subscription_id, billing_period)
    WHERE subscription_id IS NOT NULL;

-- The last number that an account has given. Its row is locked from the giving to the commit, so a rollback gives the number
-- back and nobody ever sees a gap.
CREATE TABLE invoice_numbers (
    account_id uuid PRIMARY KEY REFERENCES accounts (id),
    last       bigint NOT NULL CHECK (last >= 1)
-- Each number rewrites the row, and with room on its page leaves the index alone.
) WITH (fillfactor = 50);

-- No payment has named an invoice so far, so there is nothing to check in what is there: NOT VALID spares the table a reading
-- during which it could not be written to. Whatever is written from now on is checked.
ALTER TABLE payments ADD CONSTRAINT payments_invoice
    FOREIGN KEY (account_id, invoice_id) REFERENCES invoices (account_id, id) NOT VALID;
