-- Payments, and the operations that move their money. What the state machines promise, the constraints refuse to break.

CREATE TYPE payment_status AS ENUM (
    'processing', 'requires_action', 'authorized', 'partially_authorized', 'pending_settlement', 'settled',
    'partially_refunded', 'refunded', 'declined', 'failed', 'cancelled', 'expired'
);
CREATE TYPE decline_type AS ENUM ('soft', 'hard');
CREATE TYPE operation_kind AS ENUM ('sale', 'authorize', 'capture', 'void', 'refund', 'store_card', 'reverse');
CREATE TYPE operation_state AS ENUM ('ready', 'claimed', 'sending', 'succeeded', 'declined', 'failed', 'unknown');
CREATE TYPE refund_status AS ENUM ('pending', 'succeeded', 'failed');

-- An account's rows refer to it through its provider account: a second foreign key, to accounts alone, would prove nothing
-- more, and every insert would lock the same row once more.
CREATE TABLE payments (
    id                    uuid PRIMARY KEY,
    account_id            uuid NOT NULL,
    provider_account_id   uuid NOT NULL,
    customer_id           uuid,
    payment_method_id     uuid,
    -- Their tables come with billing, and with them the foreign keys.
    invoice_id            uuid,
    payment_link_id       uuid,
    status                payment_status NOT NULL,
    settled               boolean NOT NULL DEFAULT false,
    capture               boolean NOT NULL,
    currency              text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    amount_requested      bigint NOT NULL CHECK (amount_requested BETWEEN 1 AND 9007199254740991),
    -- What was authorized; what was asked for until that is known.
    amount                bigint NOT NULL,
    amount_captured       bigint NOT NULL DEFAULT 0,
    amount_refunded       bigint NOT NULL DEFAULT 0,
    -- Reserved by refunds on their way.
    amount_refund_pending bigint NOT NULL DEFAULT 0,
    amount_base           bigint CHECK (amount_base > 0),
    amount_surcharge      bigint CHECK (amount_surcharge > 0),
    amount_tax            bigint CHECK (amount_tax > 0),
    amount_tip            bigint CHECK (amount_tip > 0),
    card_brand            text,
    card_last4            text,
    card_exp_month        smallint,
    card_exp_year         smallint,
    decline_code          text,
    decline_type          decline_type,
    -- The provider's name for the approved charge.
    provider_ref          text,
    return_url            text,
    -- The change whose outcome is awaited, or unknown: while there is one, there is no other.
    pending_operation     operation_kind CHECK (pending_operation IN ('capture', 'void', 'refund')),
    -- Whether there is anything to look for among the refunds.
    has_refunds           boolean NOT NULL DEFAULT false,
    created_at            timestamptz NOT NULL,
    captured_at           timestamptz,
    settled_at            timestamptz,
    -- When the provider is asked next how the charge stands: whether an authorization has expired, whether captured money
    -- has settled. NULL when there is nothing to ask.
    inquiry_at            timestamptz,
    CONSTRAINT payments_of_account UNIQUE (account_id, id),
    CONSTRAINT payments_provider_account FOREIGN KEY (account_id, provider_account_id)
        REFERENCES provider_accounts (account_id, id),
    CONSTRAINT payments_customer FOREIGN KEY (account_id, customer_id) REFERENCES customers (account_id, id),
    CONSTRAINT payments_payment_method FOREIGN KEY (account_id, payment_method_id)
        REFERENCES payment_methods (account_id, id),
    CONSTRAINT payments_sums CHECK (
        0 <= amount_refunded AND 0 <= amount_refund_pending
        AND amount_refunded + amount_refund_pending <= amount_captured
        AND amount_captured <= amount AND amount <= amount_requested AND amount >= 1),
    CONSTRAINT payments_parts_sum_to_amount CHECK (amount_base IS NULL
        OR amount_base + coalesce(amount_surcharge, 0) + coalesce(amount_tax, 0) + coalesce(amount_tip, 0) = amount_requested),
    CONSTRAINT payments_decline_is_whole CHECK (
        (status = 'declined') = (decline_code IS NOT NULL) AND (decline_code IS NULL) = (decline_type IS NULL)),
    CONSTRAINT payments_money_was_approved CHECK (
        status IN ('processing', 'requires_action', 'declined', 'failed') OR provider_ref IS NOT NULL)
);
-- One approved charge at a provider pays for one payment.
CREATE UNIQUE INDEX payments_provider_ref ON payments (provider_account_id, provider_ref) WHERE provider_ref IS NOT NULL;
-- At most one live payment for an invoice or a link: a payer and the scheduler cannot both charge it.
CREATE UNIQUE INDEX payments_one_live_per_invoice ON payments (account_id, invoice_id)
    WHERE invoice_id IS NOT NULL AND status NOT IN ('declined', 'failed', 'cancelled', 'expired');
CREATE UNIQUE INDEX payments_one_live_per_link ON payments (account_id, payment_link_id)
    WHERE payment_link_id IS NOT NULL AND status NOT IN ('declined', 'failed', 'cancelled', 'expired');
CREATE INDEX payments_inquiry_due ON payments (inquiry_at) WHERE inquiry_at IS NOT NULL;

-- Money on its way back, or back. While pending, its amount is reserved on the payment.
CREATE TABLE refunds (
    id          uuid PRIMARY KEY,
    account_id  uuid NOT NULL,
    payment_id  uuid NOT NULL,
    amount      bigint NOT NULL CHECK (amount >= 1),
    status      refund_status NOT NULL DEFAULT 'pending',
    created_at  timestamptz NOT NULL,
    finished_at timestamptz,
    CONSTRAINT refunds_of_account UNIQUE (account_id, id),
    CONSTRAINT refunds_payment FOREIGN KEY (account_id, payment_id) REFERENCES payments (account_id, id),
    CONSTRAINT refunds_finished CHECK ((status = 'pending') = (finished_at IS NULL))
);
CREATE INDEX refunds_of_payment ON refunds (account_id, payment_id, id);

-- One row for every request to a provider that can move money. docs/architecture.md, "The way a charge goes".
CREATE TABLE operations (
    id                  uuid PRIMARY KEY,
    account_id          uuid NOT NULL,
    payment_id          uuid,
    payment_method_id   uuid,
    refund_id           uuid,
    provider_account_id uuid NOT NULL,
    kind                operation_kind NOT NULL,
    state               operation_state NOT NULL DEFAULT 'ready',
    -- Derived from this row's id and sent unchanged with every try: the provider's protection against a second charge.
    reference           text NOT NULL,
    amount              bigint CHECK (amount >= 1),
    currency            text,
    -- What pays: the provider's token or its name for a saved card; or, of a follow-up, the provider's name of the charge.
    upstream_token      text,
    card_ref            text,
    target_ref          text,
    -- Fencing token and lease, both by the database's clock.
    fence               bigint NOT NULL DEFAULT 0,
    lease_until         timestamptz,
    -- When the sweep hands the id out again; NULL when only a person can decide.
    next_push_at        timestamptz,
    pushes              integer NOT NULL DEFAULT 0,
    first_sent_at       timestamptz,
    last_sent_at        timestamptz,
    -- How often a look-up, made when no earlier request could still arrive, has found nothing.
    not_found           integer NOT NULL DEFAULT 0,
    -- The API process that waits for the outcome, and the request that caused it.
    reply_to            text,
    request_id          text,
    provider_ref        text,
    failure             text,
    created_at          timestamptz NOT NULL,
    finished_at         timestamptz,
    CONSTRAINT operations_of_account UNIQUE (account_id, id),
    CONSTRAINT operations_reference UNIQUE (provider_account_id, reference),
    CONSTRAINT operations_payment FOREIGN KEY (account_id, payment_id) REFERENCES payments (account_id, id),
    CONSTRAINT operations_payment_method FOREIGN KEY (account_id, payment_method_id)
        REFERENCES payment_methods (account_id, id),
    CONSTRAINT operations_refund FOREIGN KEY (account_id, refund_id) REFERENCES refunds (account_id, id),
    CONSTRAINT operations_provider_account FOREIGN KEY (account_id, provider_account_id)
        REFERENCES provider_accounts (account_id, id),
    CONSTRAINT operations_subject CHECK ((kind = 'store_card') = (payment_id IS NULL)
        AND (kind = 'store_card') = (payment_method_id IS NOT NULL) AND (kind = 'refund') = (refund_id IS NOT NULL)),
    CONSTRAINT operations_money CHECK ((kind = 'store_card') = (amount IS NULL) AND (amount IS NULL) = (currency IS NULL)),
    CONSTRAINT operations_finished CHECK ((finished_at IS NOT NULL) = (state IN ('succeeded', 'declined', 'failed'))),
    -- Finished work must not be handed out, and unfinished work that is not a person's must be.
    CONSTRAINT operations_finished_is_not_pushed CHECK (finished_at IS NULL OR next_push_at IS NULL),
    CONSTRAINT operations_unfinished_is_pushed CHECK (finished_at IS NOT NULL OR next_push_at IS NOT NULL OR state = 'unknown')
);
-- One charge per payment, and one saving per card, whatever runs twice.
CREATE UNIQUE INDEX operations_one_charge ON operations (account_id, payment_id) WHERE kind IN ('sale', 'authorize');
CREATE UNIQUE INDEX operations_one_saving ON operations (account_id, payment_method_id) WHERE kind = 'store_card';
CREATE UNIQUE INDEX operations_one_refund ON operations (account_id, refund_id) WHERE kind = 'refund';
-- One change at a time: a capture and a void cannot both be under way.
CREATE UNIQUE INDEX operations_one_change ON operations (account_id, payment_id)
    WHERE kind IN ('capture', 'void') AND finished_at IS NULL;
CREATE INDEX operations_of_payment ON operations (account_id, payment_id, id);
CREATE INDEX operations_due ON operations (next_push_at) WHERE next_push_at IS NOT NULL;
CREATE INDEX operations_unknown ON operations (first_sent_at) WHERE state = 'unknown';

-- A charge that the provider approved and that no payment wants: recorded, reversed, never dropped.
CREATE TABLE charge_anomalies (
    id                    uuid PRIMARY KEY,
    account_id            uuid NOT NULL,
    payment_id            uuid NOT NULL,
    operation_id          uuid NOT NULL,
    reversal_operation_id uuid NOT NULL,
    provider_ref          text NOT NULL,
    amount                bigint NOT NULL,
    currency              text NOT NULL,
    created_at            timestamptz NOT NULL,
    CONSTRAINT charge_anomalies_payment FOREIGN KEY (account_id, payment_id) REFERENCES payments (account_id, id),
    CONSTRAINT charge_anomalies_operation FOREIGN KEY (account_id, operation_id) REFERENCES operations (account_id, id),
    CONSTRAINT charge_anomalies_reversal FOREIGN KEY (account_id, reversal_operation_id)
        REFERENCES operations (account_id, id),
    CONSTRAINT charge_anomalies_once UNIQUE (operation_id, provider_ref)
);

-- One key, one payment, one answer. Kept as long as the payment.
CREATE TABLE idempotency_keys (
    account_id   uuid NOT NULL,
    key          text NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    -- SHA-256 of the body as parsed JSON.
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    payment_id   uuid NOT NULL,
    -- The first answer that is not "processing", byte for byte; written with the outcome.
    answer       text,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (account_id, key),
    CONSTRAINT idempotency_keys_one_per_payment UNIQUE (account_id, payment_id),
    -- The key is written before the payment, so that a second request waits here and nowhere else.
    CONSTRAINT idempotency_keys_payment FOREIGN KEY (account_id, payment_id) REFERENCES payments (account_id, id)
        DEFERRABLE INITIALLY DEFERRED
);
