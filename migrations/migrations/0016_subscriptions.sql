-- Subscriptions: a plan that a customer pays cycle by cycle. What the state machine promises, the constraints refuse to break.

CREATE TYPE subscription_status AS ENUM ('scheduled', 'active', 'past_due', 'cancelled');

-- An account's rows refer to it through its customer, as invoices do.
CREATE TABLE subscriptions (
    id                   uuid PRIMARY KEY,
    account_id           uuid NOT NULL,
    customer_id          uuid NOT NULL,
    plan_id              uuid NOT NULL,
    -- What pays; the customer's default card if none is named.
    payment_method_id    uuid,
    status               subscription_status NOT NULL,
    timezone             text NOT NULL CHECK (timezone <> ''),
    -- Every cycle's date is this one and n times the plan's interval.
    anchor               date NOT NULL,
    -- The cycle that was billed last: when its first day began, and when the next cycle's does.
    current_period_start timestamptz,
    current_period_end   timestamptz,
    -- The cycle that is billed next: its date, which is what was agreed, and the instant at which that day begins by the rules
    -- that its zone had when this was written.
    next_billing_date    date,
    next_billing_at      timestamptz,
    -- A cycle that could not be billed is not tried again before this.
    retry_at             timestamptz,
    cancelled_at         timestamptz,
    created_at           timestamptz NOT NULL,
    -- The list is read along it.
    CONSTRAINT subscriptions_of_account UNIQUE (account_id, id),
    -- So that an invoice of a subscription can only be its own customer's.
    CONSTRAINT subscriptions_of_customer UNIQUE (account_id, customer_id, id),
    CONSTRAINT subscriptions_customer FOREIGN KEY (account_id, customer_id) REFERENCES customers (account_id, id),
    CONSTRAINT subscriptions_plan FOREIGN KEY (account_id, plan_id) REFERENCES plans (account_id, id),
    -- Only a card of the subscription's own customer.
    CONSTRAINT subscriptions_payment_method FOREIGN KEY (account_id, customer_id, payment_method_id)
        REFERENCES payment_methods (account_id, customer_id, id),
    -- A cancelled one may have been billed or not.
    CONSTRAINT subscriptions_scheduled_until_billed
        CHECK (status = 'cancelled' OR (status = 'scheduled') = (current_period_start IS NULL)),
    CONSTRAINT subscriptions_period_is_whole CHECK ((current_period_start IS NULL) = (current_period_end IS NULL)
        AND current_period_start <= current_period_end),
    CONSTRAINT subscriptions_next_is_whole CHECK ((next_billing_date IS NULL) = (next_billing_at IS NULL)
        AND next_billing_date >= anchor),
    CONSTRAINT subscriptions_billed_until_cancelled CHECK ((status = 'cancelled') = (next_billing_at IS NULL)),
    CONSTRAINT subscriptions_cancelled_at CHECK ((status = 'cancelled') = (cancelled_at IS NOT NULL)),
    CONSTRAINT subscriptions_only_due_is_retried CHECK (retry_at IS NULL OR next_billing_at IS NOT NULL)
);

-- What is due, of everyone and of one account.
CREATE INDEX subscriptions_due ON subscriptions (greatest(next_billing_at, retry_at)) WHERE next_billing_at IS NOT NULL;
CREATE INDEX subscriptions_due_of_account ON subscriptions (account_id, greatest(next_billing_at, retry_at))
    WHERE next_billing_at IS NOT NULL;

-- No invoice has named a subscription so far, so there is nothing to check in what is there: NOT VALID spares the table a
-- reading during which it could not be written to. Whatever is written from now on is checked.
ALTER TABLE invoices ADD CONSTRAINT invoices_subscription
    FOREIGN KEY (account_id, customer_id, subscription_id) REFERENCES subscriptions (account_id, customer_id, id) NOT VALID;

-- What a subscription is still owed: what a cancellation takes out of collection, and what keeps it past due.
CREATE INDEX invoices_unpaid_of_subscription ON invoices (account_id, subscription_id, id)
    WHERE subscription_id IS NOT NULL AND status IN ('open', 'scheduled');
