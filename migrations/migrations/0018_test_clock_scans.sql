-- What falls due by the clock of one account, and what an advance of a clock needs.

ALTER TABLE test_clocks
    -- Processes believe for a moment what they have read of a key. Until all of them must have heard of a new clock it tells
    -- everyone's time, so that whoever has not misses nothing.
    ADD COLUMN created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What the last advance has reached. The clocks of machines differ a little; an account's time never falls behind this.
    ADD COLUMN reached timestamptz,
    -- When the sweep hands out an advance that is under way and nobody's.
    ADD COLUMN next_push_at timestamptz,
    ADD CONSTRAINT test_clocks_advance_is_handed_out CHECK ((target IS NULL) = (next_push_at IS NULL)),
    ADD CONSTRAINT test_clocks_only_an_advance_is_leased CHECK (target IS NOT NULL OR lease_until IS NULL);

-- Those that are ahead of everyone's time and tick.
CREATE INDEX test_clocks_ahead ON test_clocks (account_id) WHERE ahead_us > 0 AND target IS NULL;
-- Advances that are to be handed out.
CREATE INDEX test_clocks_due ON test_clocks (next_push_at) WHERE next_push_at IS NOT NULL;

-- What is due of one account, by its own time.
CREATE INDEX payments_inquiry_due_of_account ON payments (account_id, inquiry_at) WHERE inquiry_at IS NOT NULL;
-- The operations of one account that a clock waits for.
CREATE INDEX operations_unfinished_of_account ON operations (account_id) WHERE next_push_at IS NOT NULL;

-- Both as before, but in plpgsql, which keeps the plans of its statements; and time stays where the last advance has led.
CREATE OR REPLACE FUNCTION account_now(account uuid, at timestamptz) RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN coalesce(
        (SELECT coalesce(c.frozen_at, greatest(c.reached, at + c.ahead_us * interval '1 microsecond'))
         FROM test_clocks c WHERE c.account_id = account),
        at);
END
$$;

CREATE OR REPLACE FUNCTION is_advancing(account uuid) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM test_clocks c WHERE c.account_id = account AND c.target IS NOT NULL);
END
$$;
