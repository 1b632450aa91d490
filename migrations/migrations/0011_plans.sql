-- Plans: what is charged, and how often. A price has one plan, however many ask for it at once.

CREATE TYPE plan_interval AS ENUM ('day', 'week', 'month', 'year');

CREATE TABLE plans (
    id             uuid PRIMARY KEY,
    account_id     uuid NOT NULL REFERENCES accounts (id),
    name           text NOT NULL,
    amount         bigint NOT NULL CHECK (amount BETWEEN 1 AND 9007199254740991),
    currency       text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    "interval"     plan_interval NOT NULL,
    interval_count integer NOT NULL CHECK (interval_count > 0),
    created_at     timestamptz NOT NULL,
    -- The list is read along it.
    CONSTRAINT plans_of_account UNIQUE (account_id, id),
    CONSTRAINT plans_price UNIQUE (account_id, amount, currency, "interval", interval_count)
);
