-- Whether an account's due work may be done by whoever is not at the advance of its clock: no, while the clock is being
-- advanced; and if it may, no advance begins until this transaction has ended. So an advance that begins finds what was done
-- before it, and nothing is done by a time that has passed. Where there is no clock, none is made before that end.
CREATE FUNCTION hold_clock(account uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM test_clocks c WHERE c.account_id = account) THEN
        IF EXISTS (SELECT 1 FROM accounts a WHERE a.id = account AND a.mode = 'live') THEN
            RETURN true;
        END IF;
        IF NOT pg_try_advisory_xact_lock_shared(making_of_clock(account)) THEN
            RETURN false;
        END IF;
        IF NOT EXISTS (SELECT 1 FROM test_clocks c WHERE c.account_id = account) THEN
            RETURN true;
        END IF;
    END IF;
    -- Locked by another, it is being advanced at this moment.
    PERFORM 1 FROM test_clocks c WHERE c.account_id = account AND c.target IS NULL FOR SHARE SKIP LOCKED;
    RETURN FOUND;
END
$$;

-- The lock that whoever makes a clock has alone.
CREATE FUNCTION making_of_clock(account uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended('test_clocks ' || account::text, 0)
$$;
