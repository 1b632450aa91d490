-- Nothing but this drops what there is no second copy of, so it goes by the clock of the database, and by no other: whatever instant it
-- is given, a month that ended less than two months ago stays. Fewer than two are not kept anywhere (RETENTION_MONTHS).
CREATE OR REPLACE FUNCTION drop_monthly_partitions(parent regclass, before timestamptz) RETURNS integer
LANGUAGE plpgsql STRICT SET lock_timeout = '100ms' AS $$
DECLARE
    latest timestamptz := least(before, clock_timestamp() - interval '2 months');
    dropped integer := 0;
    part regclass;
BEGIN
    FOR part IN
        SELECT c.oid FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent AND c.relname ~ '_[0-9]{4}_[0-9]{2}$'
          AND (to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month') AT TIME ZONE 'UTC' <= latest
    LOOP
        EXECUTE format('DROP TABLE %s', part);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;
