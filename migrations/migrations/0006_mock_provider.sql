-- The mock provider's own books, in its own schema. The rest of the system never reads them: they are what our payments are
-- compared with, as with a provider's statement. No foreign key leads here or away.

CREATE SCHEMA mock;

CREATE TABLE mock.accounts (
    -- The provider account that this one stands behind.
    id              uuid PRIMARY KEY,
    -- Faults and gaps, set by the operator's tool.
    latency_ms      integer NOT NULL DEFAULT 0 CHECK (latency_ms BETWEEN 0 AND 600000),
    lose_answers    integer NOT NULL DEFAULT 0 CHECK (lose_answers >= 0),
    refuse          boolean NOT NULL DEFAULT false,
    -- A: a repeated reference gets the first answer. B: it is refused, and can be looked up. C: it is charged again.
    recovery_class  text NOT NULL DEFAULT 'A' CHECK (recovery_class IN ('A', 'B', 'C'))
);

CREATE TABLE mock.cards (
    id         text PRIMARY KEY,
    account    uuid NOT NULL,
    reference  text,
    -- The test token the card was made from: it keeps its nature.
    nature     text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (account, reference)
);

CREATE TABLE mock.transactions (
    id           text PRIMARY KEY,
    account      uuid NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('sale', 'authorize', 'capture', 'void', 'refund')),
    -- The charge that a capture, void or refund belongs to.
    parent       text REFERENCES mock.transactions (id),
    reference    text NOT NULL,
    approved     boolean NOT NULL,
    decline_code text,
    amount       bigint NOT NULL,
    currency     text NOT NULL,
    nature       text NOT NULL,
    -- By the clock of the account at /v1; created_at by this database's.
    occurred_at  timestamptz NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Of a charge: when its money arrived, when its hold ran out, when it was voided. At most one of the three.
    settled_at   timestamptz,
    expired_at   timestamptz,
    voided_at    timestamptz,
    CHECK (num_nonnulls(settled_at, expired_at, voided_at) <= 1),
    -- The reference again in classes A and B, NULL in class C, which knows no references.
    unique_reference text,
    UNIQUE (account, unique_reference)
);
CREATE INDEX transactions_of_parent ON mock.transactions (parent) WHERE parent IS NOT NULL;
