-- Writes events, and a pending delivery of each for every endpoint that subscribes to it, in the transaction of the changes
-- that they report. Returns the endpoints. Two statements for a whole batch instead of two for each event.
CREATE FUNCTION emit_events(ids uuid[], accounts uuid[], kinds text[], payloads text[], times timestamptz[])
RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events (id, account_id, type, payload, created_at) SELECT * FROM unnest(ids, accounts, kinds, payloads, times);
    RETURN QUERY
        INSERT INTO webhook_pending AS p (id, account_id, endpoint_id, event_id, due_at, created_at)
        SELECT new_ulid(n.at), n.account, e.id, n.id, clock_timestamp(), n.at
        FROM unnest(ids, accounts, kinds, times) AS n (id, account, kind, at)
        JOIN webhook_endpoints e ON e.account_id = n.account
        WHERE e.deleted_at IS NULL AND e.status = 'enabled' AND (e.enabled_events = '{}' OR n.kind = ANY (e.enabled_events))
        RETURNING p.endpoint_id;
END
$$;

CREATE OR REPLACE FUNCTION emit_event(event uuid, account uuid, kind text, payload text, at timestamptz) RETURNS SETOF uuid
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT emit_events(ARRAY[event], ARRAY[account], ARRAY[kind], ARRAY[payload], ARRAY[at]);
END
$$;
