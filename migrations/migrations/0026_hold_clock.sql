-- Whether an account's due work may be done by whoever is not at the advance of its clock: no, while the clock is being
-- advanced; and if it may, no advance begins until this transaction has ended. So an advance that begins finds what was done
-- before it, and nothing is done by a time that has passed. An account without a clock has nothing to hold.
CREATE FUNCTION hold_clock(account uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM test_clocks c WHERE c.account_id = account) THEN
        RETURN true;
    END IF;
    -- Locked by another, it is being advanced at this moment.
    PERFORM 1 FROM test_clocks c WHERE c.account_id = account AND c.target IS NULL FOR SHARE SKIP LOCKED;
    RETURN FOUND;
END
$$;
