-- Recurring invoices: what produces an invoice again and again. Dates are what was agreed with the merchant, instants what
-- the account's time zone makes of them.

CREATE TYPE recurring_invoice_status AS ENUM ('active', 'paused', 'parked', 'completed', 'cancelled');
CREATE TYPE recurring_invoice_mode AS ENUM ('auto_send', 'draft_for_review');
CREATE TYPE cadence_unit AS ENUM ('daily', 'weekly', 'monthly', 'yearly');

CREATE TABLE recurring_invoices (
    id                uuid PRIMARY KEY,
    account_id        uuid NOT NULL,
    customer_id       uuid NOT NULL,
    name              text,
    status            recurring_invoice_status NOT NULL DEFAULT 'active',
    cadence_unit      cadence_unit NOT NULL,
    cadence_interval  integer NOT NULL CHECK (cadence_interval BETWEEN 1 AND 36),
    -- Neither is the day of the anchor.
    day_of_month      integer CHECK (day_of_month BETWEEN 1 AND 31),
    last_day_of_month boolean NOT NULL DEFAULT false,
    start_date        date NOT NULL,
    -- The last day on which an invoice may be produced.
    end_date          date,
    -- The first date of the cadence; every other is counted from it.
    anchor            date NOT NULL,
    mode              recurring_invoice_mode NOT NULL,
    -- Read when an invoice is made of it, and with the row alone.
    template          jsonb NOT NULL CHECK (jsonb_typeof(template) = 'object'),
    -- The date of the next cycle, and when to produce its invoice: at the beginning of that day, or later after a failure.
    next_date         date,
    next_run_at       timestamptz,
    -- How often that has failed in a row.
    failure_count     integer NOT NULL DEFAULT 0,
    -- Invoices produced, drafts included.
    occurrence_count  bigint NOT NULL DEFAULT 0 CHECK (occurrence_count >= 0),
    created_at        timestamptz NOT NULL,
    -- The list is read along it.
    CONSTRAINT recurring_invoices_of_account UNIQUE (account_id, id),
    -- So that what it produces can only be an invoice of its own customer.
    CONSTRAINT recurring_invoices_of_customer UNIQUE (account_id, customer_id, id),
    CONSTRAINT recurring_invoices_customer FOREIGN KEY (account_id, customer_id) REFERENCES customers (account_id, id),
    CONSTRAINT recurring_invoices_day_of_months CHECK
        (cadence_unit IN ('monthly', 'yearly') OR (day_of_month IS NULL AND NOT last_day_of_month)),
    CONSTRAINT recurring_invoices_one_day CHECK (day_of_month IS NULL OR NOT last_day_of_month),
    CONSTRAINT recurring_invoices_ends_after_start CHECK (end_date >= start_date),
    CONSTRAINT recurring_invoices_anchored_from_start CHECK (anchor >= start_date),
    CONSTRAINT recurring_invoices_next_is_whole CHECK ((next_date IS NULL) = (next_run_at IS NULL)),
    CONSTRAINT recurring_invoices_only_active_has_next CHECK ((status = 'active') = (next_date IS NOT NULL)),
    CONSTRAINT recurring_invoices_next_within_dates CHECK (next_date >= anchor AND (end_date IS NULL OR next_date <= end_date)),
    CONSTRAINT recurring_invoices_parked_after_three_failures CHECK (CASE status
        WHEN 'active' THEN failure_count BETWEEN 0 AND 2 WHEN 'parked' THEN failure_count = 3 ELSE failure_count = 0 END)
);

-- What is due, of everyone and of one account.
CREATE INDEX recurring_invoices_due ON recurring_invoices (next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX recurring_invoices_due_of_account ON recurring_invoices (account_id, next_run_at) WHERE next_run_at IS NOT NULL;

-- No invoice has named a recurring one so far, so there is nothing to check in what is there: NOT VALID spares the table a
-- reading during which it could not be written to. Whatever is written from now on is checked.
ALTER TABLE invoices ADD CONSTRAINT invoices_recurring_invoice FOREIGN KEY (account_id, customer_id, recurring_invoice_id)
    REFERENCES recurring_invoices (account_id, customer_id, id) NOT VALID;
