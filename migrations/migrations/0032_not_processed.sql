-- Work that a provider did not process goes on. A request that never reached the provider, or was turned away unread, is no outcome
-- of what nobody waits for: the operation is ready again, and is sent later.
ALTER TABLE operations
    -- How often in a row it was not processed: the exponent of its backoff.
    ADD COLUMN not_processed integer NOT NULL DEFAULT 0,
    -- Begun by the system itself (a reversal, a part that is given back): it goes on until the provider has decided.
    ADD COLUMN by_system boolean NOT NULL DEFAULT false,
    -- Why it failed, as the API says it.
    ADD COLUMN failure_code text;

-- A provider account that processes nothing, for as long as that lasts. Without a row all is well. Rows come and go with an outage,
-- and no payment writes here otherwise.
CREATE TABLE provider_breakers (
    provider_account_id uuid PRIMARY KEY,
    account_id          uuid NOT NULL,
    -- Operations in a row that were not processed; one that is tried again counts once.
    failures            integer NOT NULL CHECK (failures >= 1),
    last_operation_id   uuid NOT NULL,
    reason              text NOT NULL,
    since               timestamptz NOT NULL,
    -- Requests that were let through to see whether the provider processes again: how many, when the last, and when the next.
    probes              integer NOT NULL DEFAULT 0,
    probed_at           timestamptz,
    probe_at            timestamptz NOT NULL,
    -- When the next operation that is put off may be sent: they are put one behind the other, so that what has gathered goes out at
    -- a bounded rate.
    next_slot_at        timestamptz NOT NULL,
    CONSTRAINT provider_breakers_provider_account FOREIGN KEY (account_id, provider_account_id)
        REFERENCES provider_accounts (account_id, id),
    CONSTRAINT provider_breakers_last_operation FOREIGN KEY (account_id, last_operation_id)
        REFERENCES operations (account_id, id)
);
CREATE INDEX provider_breakers_since ON provider_breakers (since);
