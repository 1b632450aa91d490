-- What happened, each written in the transaction that made it true. The table grows for ever, so it is cut by month.
-- Ids are ULIDs: their first 48 bits are the milliseconds since 1970, so a range of ids is a range of time, the primary key
-- needs no second column, and a look-up by id touches one partition.

CREATE TABLE events (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES accounts (id),
    type       text NOT NULL,
    -- The bytes that every delivery sends: text, not jsonb, because jsonb would reorder them.
    payload    text NOT NULL,
    created_at timestamptz NOT NULL
) PARTITION BY RANGE (id);
CREATE INDEX events_of_account ON events (account_id, id);

-- The smallest ULID of an instant, as uuid.
CREATE FUNCTION ulid_floor(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- Makes the monthly partitions of a table from the month of `first` on, where they are missing. The scheduler calls it
-- ahead of time; the default partition catches what a clock far off would otherwise lose.
CREATE FUNCTION ensure_monthly_partitions(parent regclass, first timestamptz, months integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    start timestamp := date_trunc('month', first AT TIME ZONE 'UTC');
    made integer := 0;
    part text;
BEGIN
    FOR i IN 0 .. months - 1 LOOP
        part := parent::text || '_' || to_char(start + make_interval(months => i), 'YYYY_MM');
        IF to_regclass(part) IS NULL THEN
            EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF %s FOR VALUES FROM (%L) TO (%L)', part, parent,
                ulid_floor((start + make_interval(months => i)) AT TIME ZONE 'UTC'),
                ulid_floor((start + make_interval(months => i + 1)) AT TIME ZONE 'UTC'));
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;
END
$$;

CREATE TABLE events_default PARTITION OF events DEFAULT;
SELECT ensure_monthly_partitions('events', now(), 3);
