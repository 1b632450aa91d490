-- Events are read by the API: by type, by object, and by those who follow them.

-- The transaction that wrote an event. Transactions do not end in the order of their ids, so a reader that follows the
-- events sees only those of transactions below the oldest one in progress: nothing can be added among them afterwards.
-- Earlier events have none and come first.
ALTER TABLE events ADD COLUMN xact bigint;

CREATE OR REPLACE FUNCTION emit_events(ids uuid[], accounts uuid[], kinds text[], payloads text[], times timestamptz[])
RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events (id, account_id, type, payload, created_at, xact)
    SELECT n.*, pg_current_xact_id()::text::bigint FROM unnest(ids, accounts, kinds, payloads, times) AS n;
    RETURN QUERY
        INSERT INTO webhook_pending AS p (id, account_id, endpoint_id, event_id, due_at, created_at)
        SELECT new_ulid(n.at), n.account, e.id, n.id, clock_timestamp(), n.at
        FROM unnest(ids, accounts, kinds, times) AS n (id, account, kind, at)
        JOIN webhook_endpoints e ON e.account_id = n.account
        WHERE e.deleted_at IS NULL AND e.status = 'enabled' AND (e.enabled_events = '{}' OR n.kind = ANY (e.enabled_events))
        RETURNING p.endpoint_id;
END
$$;

-- The id of the object, which is its first field.
CREATE FUNCTION event_object_id(payload text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN substring(payload FROM '"object":\{"id":"([a-z]+_[0-9A-Z]{26})"');

-- The time that the event shows. In this format texts are in the order of the times.
CREATE FUNCTION event_timestamp(payload text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN substring(payload FROM '"timestamp":"([^"]+)"') COLLATE "C";

-- Only declared here. The migrating program then builds each partition's without blocking it.
CREATE INDEX events_by_type ON ONLY events (account_id, type, id);
CREATE INDEX events_of_object ON ONLY events (account_id, event_object_id(payload), id);
CREATE INDEX events_in_order ON ONLY events (account_id, coalesce(xact, 0), id);
