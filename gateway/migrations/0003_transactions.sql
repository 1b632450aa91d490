-- Transactions. A row is written before the acquirer is asked, and ended when its answer is known. What the rules promise, the
-- constraints refuse to break.

CREATE TABLE gateway.transactions (
    id                uuid PRIMARY KEY,
    account_id        uuid NOT NULL REFERENCES gateway.accounts (id),
    -- The sale or authorization that a capture, void or refund belongs to.
    parent_id         uuid,
    kind              text NOT NULL CHECK (kind IN ('sale', 'authorize', 'capture', 'void', 'refund', 'credit')),
    state             text NOT NULL CHECK (state IN ('challenged', 'in_progress', 'approved', 'declined', 'failed')),
    source            text NOT NULL CHECK (source IN ('api', 'card_token', 'capture_field', 'wallet')),
    -- Hundredths.
    amount            bigint NOT NULL CHECK (amount BETWEEN 1 AND 99999999999999),
    currency          text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    -- The caller's name for it; children carry their parent's.
    reference_id      text CHECK (char_length(reference_id) BETWEEN 1 AND 255),

    -- Of a parent: what was done to it, and what is being done.
    captured          bigint NOT NULL DEFAULT 0 CHECK (captured >= 0),
    refunded          bigint NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    refunding         bigint NOT NULL DEFAULT 0 CHECK (refunding >= 0),
    voided            boolean NOT NULL DEFAULT false,
    -- A capture or void that is under way, which nothing else may cross.
    changing          text CHECK (changing IN ('capture', 'void')),
    settles_at        timestamptz,
    lapses_at         timestamptz,

    -- What was said of the card. Never its number, but for one that waits for its cardholder.
    brand             text NOT NULL,
    masked            text NOT NULL CHECK (masked ~ '^X+[0-9]{4}$'),
    expiry            text NOT NULL CHECK (expiry ~ '^(0[1-9]|1[0-2])/[0-9]{4}$'),
    number            bytea,
    -- A keyed hash of kind, card, amount and currency.
    fingerprint       bytea CHECK (octet_length(fingerprint) = 32),
    client_ip         text,
    -- Cardholder, shipping, memo: what is shown and never decided by.
    details           jsonb NOT NULL,

    -- The end.
    reason            text,
    auth_code         text,
    avs               text,
    cvv               text,

    -- 3-D Secure.
    challenge_hash    bytea CONSTRAINT transactions_challenge UNIQUE CHECK (octet_length(challenge_hash) = 32),
    challenge_ends_at timestamptz,
    return_url        text,

    wallet_token      uuid CONSTRAINT transactions_wallet_token UNIQUE,
    -- The month whose volume it was counted in.
    month             date,
    -- When somebody has to look after it, by the database's clock.
    recover_at        timestamptz,
    created_at        timestamptz NOT NULL,
    ended_at          timestamptz,

    CONSTRAINT transactions_of_account UNIQUE (account_id, id),
    CONSTRAINT transactions_parent FOREIGN KEY (account_id, parent_id) REFERENCES gateway.transactions (account_id, id),
    CONSTRAINT transactions_child_has_parent CHECK ((parent_id IS NOT NULL) = (kind IN ('capture', 'void', 'refund'))),
    CONSTRAINT transactions_end_is_whole CHECK ((ended_at IS NOT NULL) = (state IN ('approved', 'declined', 'failed'))),
    CONSTRAINT transactions_failure_has_a_reason CHECK (state NOT IN ('declined', 'failed') OR reason IS NOT NULL),
    CONSTRAINT transactions_unfinished_is_looked_after CHECK ((recover_at IS NOT NULL) = (ended_at IS NULL)),
    CONSTRAINT transactions_number_only_for_a_challenge CHECK ((number IS NOT NULL) = (state = 'challenged')),
    CONSTRAINT transactions_challenge_is_whole CHECK (state <> 'challenged'
        OR (challenge_hash IS NOT NULL AND challenge_ends_at IS NOT NULL AND return_url IS NOT NULL)),
    CONSTRAINT transactions_captured_within_amount CHECK (captured <= amount),
    CONSTRAINT transactions_refunded_within_captured CHECK (refunded + refunding <= captured),
    CONSTRAINT transactions_only_a_charge_has_sums CHECK (kind IN ('sale', 'authorize') OR (captured = 0 AND refunded = 0 AND refunding = 0)),
    CONSTRAINT transactions_only_approved_has_sums CHECK (state = 'approved'
        OR (captured = 0 AND refunded = 0 AND refunding = 0 AND changing IS NULL AND NOT voided)),
    CONSTRAINT transactions_voided_is_not_refunded CHECK (NOT (voided OR changing = 'void') OR refunded + refunding = 0),
    CONSTRAINT transactions_money_settles CHECK (captured = 0 OR settles_at IS NOT NULL)
);

-- One reference stands for one transaction of an account, whatever became of it. Children carry it too, and are not meant.
CREATE UNIQUE INDEX transactions_reference ON gateway.transactions (account_id, reference_id)
    WHERE reference_id IS NOT NULL AND parent_id IS NULL;
-- At most one capture and one void of a charge that may have happened.
CREATE UNIQUE INDEX transactions_one_capture ON gateway.transactions (parent_id)
    WHERE kind = 'capture' AND state IN ('in_progress', 'approved');
CREATE UNIQUE INDEX transactions_one_void ON gateway.transactions (parent_id)
    WHERE kind = 'void' AND state IN ('in_progress', 'approved');

CREATE INDEX transactions_to_recover ON gateway.transactions (recover_at) WHERE recover_at IS NOT NULL;
-- Of the foreign key.
CREATE INDEX transactions_children ON gateway.transactions (account_id, parent_id) WHERE parent_id IS NOT NULL;
-- The report is read along these two.
CREATE INDEX transactions_report ON gateway.transactions (account_id, created_at, id);
CREATE INDEX transactions_report_by_reference ON gateway.transactions (account_id, reference_id, created_at, id)
    WHERE reference_id IS NOT NULL;
-- How many came from one address.
CREATE INDEX transactions_by_address ON gateway.transactions (account_id, client_ip, created_at) WHERE client_ip IS NOT NULL;

-- What a transaction without a reference may not repeat: one row for each kind, card, amount and currency of an account, held
-- while one is under way, and for a while after its success.
CREATE TABLE gateway.duplicate_guards (
    account_id     uuid NOT NULL REFERENCES gateway.accounts (id),
    fingerprint    bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    transaction_id uuid NOT NULL,
    until          timestamptz NOT NULL,
    PRIMARY KEY (account_id, fingerprint)
);
CREATE INDEX duplicate_guards_to_forget ON gateway.duplicate_guards (until);

-- The books of the simulated acquirer, which stands outside: nothing else here reads them, and no foreign key leads here. A
-- reference is answered once, or barred before it arrives.
CREATE TABLE gateway.acquirer_books (
    reference  uuid PRIMARY KEY,
    answer     text NOT NULL CHECK (answer IN ('approved', 'declined', 'barred')),
    auth_code  text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
