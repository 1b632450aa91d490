-- What the portal's first page shows, by day of the account's time zone and clock. Added up from events, each once, for
-- accounts whose figures somebody has looked at.
CREATE TABLE figures (
    account_id uuid NOT NULL REFERENCES accounts (id),
    day        date NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('approved', 'declined', 'captured', 'voided', 'refunded', 'disputed')),
    currency   text NOT NULL,
    -- Of a decline its code, otherwise empty.
    detail     text NOT NULL,
    count      bigint NOT NULL,
    -- In minor units.
    amount     numeric NOT NULL,
    PRIMARY KEY (account_id, day, kind, currency, detail)
);

-- The last event of an account that its figures include.
CREATE TABLE figure_cursors (
    account_id uuid PRIMARY KEY REFERENCES accounts (id),
    xact       bigint NOT NULL,
    event_id   uuid NOT NULL,
    -- When the scheduler adds the following events. While a user is signed in, soon; otherwise every hour, so that the
    -- first page never has much to catch up with.
    due_at     timestamptz NOT NULL
);

CREATE INDEX figure_cursors_due ON figure_cursors (due_at);
