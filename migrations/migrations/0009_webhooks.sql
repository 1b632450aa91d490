-- Webhooks: where a merchant hears what happened, what is still to be sent, and what was sent.
--
-- A delivery (one attempt) lives in webhook_pending until it has been made, and from then on, under the same id and for
-- good, in webhook_deliveries. The first table stays as small as the backlog; the second is only ever inserted into, so it
-- can be cut by month and needs no vacuum. Whether an event still has attempts ahead of it at an endpoint is the row in
-- webhook_pending, and never concluded from the latest attempt.

CREATE TYPE webhook_endpoint_status AS ENUM ('enabled', 'disabled');

CREATE TABLE webhook_endpoints (
    id                    uuid PRIMARY KEY,
    account_id            uuid NOT NULL REFERENCES accounts (id),
    url                   text NOT NULL,
    -- Event types; empty is every type.
    enabled_events        text[] NOT NULL DEFAULT '{}',
    status                webhook_endpoint_status NOT NULL DEFAULT 'enabled',
    disabled_reason       text,
    -- Encrypted in the context of the id. After a rotation the former one signs too, until its time is over.
    secret                bytea NOT NULL,
    previous_secret       bytea,
    previous_secret_until timestamptz,
    -- Since when no attempt has succeeded, of a stretch of failures; none while the last one did. What was begun before
    -- fresh_since, when the merchant enabled or moved the endpoint, does not count.
    failing_since         timestamptz,
    last_failed_at        timestamptz,
    fresh_since           timestamptz NOT NULL DEFAULT '-infinity',
    -- The endpoint asked to be left alone until then (429 or 503 with Retry-After).
    paused_until          timestamptz,
    created_at            timestamptz NOT NULL,
    deleted_at            timestamptz,
    UNIQUE (account_id, id),
    CONSTRAINT webhook_endpoints_disabled_for_a_reason CHECK ((status = 'disabled') = (disabled_reason IS NOT NULL)),
    CONSTRAINT webhook_endpoints_previous_secret_ends CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX webhook_endpoints_of_account ON webhook_endpoints (account_id, id) WHERE deleted_at IS NULL;

CREATE TABLE webhook_pending (
    id          uuid NOT NULL,
    account_id  uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    -- No foreign key: events are partitioned and dropped by month, long after anything pending has ended.
    event_id    uuid NOT NULL,
    -- From 1 on. A replay stands outside the retries: it is made once, and names the delivery that it repeats.
    attempt     smallint NOT NULL DEFAULT 1,
    replay_of   uuid,
    due_at      timestamptz NOT NULL,
    -- A worker is making the attempt until then, under this fencing token.
    lease_until timestamptz,
    fence       bigint NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    -- The lock that this takes on the endpoint is the one that its deletion waits for.
    FOREIGN KEY (account_id, endpoint_id) REFERENCES webhook_endpoints (account_id, id),
    CONSTRAINT webhook_pending_attempt CHECK (attempt >= 1 AND (replay_of IS NULL OR attempt = 1))
-- Claims change nothing that is indexed, so with room on the page they leave the indexes alone. Rows come and go all the
-- time: vacuum follows their number and not the size of the table.
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX webhook_pending_due ON webhook_pending (endpoint_id, due_at);
-- A page of one endpoint's must not read the backlog of the account's others.
CREATE INDEX webhook_pending_of_endpoint ON webhook_pending (endpoint_id, id);

CREATE TYPE webhook_delivery_status AS ENUM ('pending', 'succeeded', 'failed');

CREATE TABLE webhook_deliveries (
    id              uuid NOT NULL,
    -- No foreign keys: a row comes here from webhook_pending, whose own hold, and nothing that is referred to is deleted.
    account_id      uuid NOT NULL,
    endpoint_id     uuid NOT NULL,
    event_id        uuid NOT NULL,
    attempt         smallint NOT NULL,
    replay_of       uuid,
    status          webhook_delivery_status NOT NULL,
    -- Why it failed: the class, and a sentence for the merchant where nothing was answered.
    failure         text,
    failure_message text,
    response_status smallint,
    -- The first 4 KiB, as text.
    response_body   text,
    duration_ms     integer,
    -- None if it was never made, because the endpoint was disabled or deleted.
    attempted_at    timestamptz,
    next_attempt_at timestamptz,
    created_at      timestamptz NOT NULL,
    -- Not the id alone: a page of one account's would be planned by that index too, and read everybody's rows.
    PRIMARY KEY (account_id, id),
    CONSTRAINT webhook_deliveries_are_done CHECK (status <> 'pending'),
    CONSTRAINT webhook_deliveries_fail_for_a_reason CHECK ((status = 'failed') = (failure IS NOT NULL))
) PARTITION BY RANGE (id);
CREATE INDEX webhook_deliveries_of_endpoint ON webhook_deliveries (endpoint_id, id);
-- Few rows fail, so a list of the failures must not read all the others.
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (account_id, id) WHERE status = 'failed';
CREATE INDEX webhook_deliveries_failed_of_endpoint ON webhook_deliveries (endpoint_id, id) WHERE status = 'failed';
CREATE TABLE webhook_deliveries_default PARTITION OF webhook_deliveries DEFAULT;
SELECT ensure_monthly_partitions('webhook_deliveries', now(), 3);

-- Making a partition needs a lock that everybody waits behind, so it gives up soon; it is tried again in an hour, months ahead.
ALTER FUNCTION ensure_monthly_partitions(regclass, timestamptz, integer) SET lock_timeout = '500ms';

-- A new ULID of an instant, for rows that a statement makes by itself. The random digits of a UUID of version 4 are not all
-- random: six of the 80 bits are fixed.
CREATE FUNCTION new_ulid(at timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0')
        || right(replace(gen_random_uuid()::text, '-', ''), 20))::uuid
$$;

-- Writes an event, and a pending delivery for each endpoint that wants to hear of it, in the transaction that makes it true.
-- Answers these endpoints. In plpgsql, which keeps the plans of its statements; functions in plain SQL plan at each call.
CREATE FUNCTION emit_event(event uuid, account uuid, kind text, payload text, at timestamptz) RETURNS SETOF uuid
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events (id, account_id, type, payload, created_at) VALUES (event, account, kind, payload, at);
    RETURN QUERY
        INSERT INTO webhook_pending AS p (id, account_id, endpoint_id, event_id, due_at, created_at)
        SELECT new_ulid(at), account, e.id, event, clock_timestamp(), at
        FROM webhook_endpoints e
        WHERE e.account_id = account AND e.deleted_at IS NULL AND e.status = 'enabled'
          AND (e.enabled_events = '{}' OR kind = ANY (e.enabled_events))
        RETURNING p.endpoint_id;
END
$$;

-- Drops the monthly partitions of a table whose months were over at `before`; answers how many. It needs a lock that
-- everybody waits behind, so it gives up soon and is called again in an hour.
CREATE FUNCTION drop_monthly_partitions(parent regclass, before timestamptz) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
DECLARE
    dropped integer := 0;
    part regclass;
BEGIN
    FOR part IN
        SELECT c.oid FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent AND c.relname ~ '_[0-9]{4}_[0-9]{2}$'
          AND (to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month') AT TIME ZONE 'UTC' <= before
    LOOP
        EXECUTE format('DROP TABLE %s', part);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;
