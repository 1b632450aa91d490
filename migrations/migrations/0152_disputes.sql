-- Disputes of payments, as their provider reports them.
CREATE TYPE dispute_status AS ENUM ('needs_response', 'under_review', 'won', 'lost');

CREATE TABLE disputes (
    id                  uuid PRIMARY KEY,
    account_id          uuid NOT NULL,
    payment_id          uuid NOT NULL,
    provider_account_id uuid NOT NULL,
    -- The provider's reference for it.
    provider_ref        text NOT NULL,
    amount              bigint NOT NULL CHECK (amount >= 1),
    -- Of the payment.
    currency            text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    reason              text NOT NULL,
    status              dispute_status NOT NULL,
    respond_by          timestamptz,
    version             bigint NOT NULL DEFAULT 1,
    -- When the money was withdrawn, and when the dispute was decided.
    created_at          timestamptz NOT NULL,
    closed_at           timestamptz,
    CONSTRAINT disputes_of_account UNIQUE (account_id, id),
    CONSTRAINT disputes_once UNIQUE (provider_account_id, provider_ref),
    CONSTRAINT disputes_payment FOREIGN KEY (account_id, payment_id) REFERENCES payments (account_id, id),
    CONSTRAINT disputes_provider_account FOREIGN KEY (account_id, provider_account_id)
        REFERENCES provider_accounts (account_id, id),
    CONSTRAINT disputes_closed CHECK ((status IN ('won', 'lost')) = (closed_at IS NOT NULL))
);
CREATE INDEX disputes_of_payment ON disputes (account_id, payment_id, id);
CREATE INDEX disputes_by_status ON disputes (account_id, status, id);
-- What was withdrawn and given back on one day.
CREATE INDEX disputes_created ON disputes (account_id, created_at);
CREATE INDEX disputes_won ON disputes (account_id, closed_at) WHERE status = 'won';

CREATE TRIGGER disputes_version BEFORE UPDATE ON disputes FOR EACH ROW
    WHEN ((OLD.status, OLD.respond_by) IS DISTINCT FROM (NEW.status, NEW.respond_by))
    EXECUTE FUNCTION raise_version();

-- What is withdrawn at present because of disputes.
ALTER TABLE payments ADD COLUMN amount_disputed bigint NOT NULL DEFAULT 0;
ALTER TABLE payments ADD CONSTRAINT payments_disputed
    CHECK (0 <= amount_disputed AND amount_disputed <= amount_captured) NOT VALID;
-- upgrade: it only raises the version, once with the trigger for the other columns.
CREATE TRIGGER payments_version_of_dispute BEFORE UPDATE ON payments FOR EACH ROW
    WHEN (OLD.amount_disputed IS DISTINCT FROM NEW.amount_disputed)
    EXECUTE FUNCTION raise_version();

-- The mock's own disputes: decided a fixed time after they were opened.
CREATE TABLE mock.disputes (
    id        text PRIMARY KEY,
    account   uuid NOT NULL,
    charge    text NOT NULL UNIQUE REFERENCES mock.transactions (id),
    amount    bigint NOT NULL CHECK (amount >= 1),
    nature    text NOT NULL,
    -- By the clock of the account at /v1.
    opened_at timestamptz NOT NULL
);
