-- Processes keep plans until their tables are analyzed. For a table of a few rows every index costs the same, so a plan
-- made for it may use one that reads all rows of an account. Autovacuum looks once a minute; until then, a new database
-- under load would read more with each row.

-- Analyzes the tables of this owner that are at least four times as large as when they were last vacuumed or analyzed,
-- and returns how many. Larger ones are left to autovacuum. A table that is being vacuumed or changed is skipped.
CREATE FUNCTION analyze_grown_tables() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    grown regclass;
    analyzed integer := 0;
BEGIN
    FOR grown IN
        SELECT c.oid FROM pg_class c
        WHERE c.relkind = 'r' AND c.relowner = quote_ident(current_user)::regrole AND c.relpages < 10000
          AND pg_relation_size(c.oid) / current_setting('block_size')::integer >= 4 * greatest(c.relpages, 4)
    LOOP
        BEGIN
            EXECUTE format('ANALYZE %s', grown);
            analyzed := analyzed + 1;
        EXCEPTION WHEN lock_not_available OR undefined_table THEN
            NULL;
        END;
    END LOOP;
    RETURN analyzed;
END $$;
