-- Test clocks: the time of a test account, moved ahead of everyone else's (docs/billing.md, Test clock).

CREATE TABLE test_clocks (
    account_id  uuid PRIMARY KEY REFERENCES accounts (id),
    -- How far it is ahead. It goes on ticking.
    ahead_us    bigint NOT NULL DEFAULT 0 CHECK (ahead_us >= 0),
    -- While it is advanced it stands still, at one due instant after the other, until it reaches its target.
    frozen_at   timestamptz,
    target      timestamptz,
    -- Whoever advances it holds this lease, by the clock of the database.
    lease_until timestamptz,
    fence       bigint NOT NULL DEFAULT 0,
    CONSTRAINT test_clocks_advance_is_whole CHECK ((frozen_at IS NULL) = (target IS NULL)),
    CONSTRAINT test_clocks_never_back CHECK (frozen_at <= target)
);

-- Those that are being advanced.
CREATE INDEX test_clocks_advancing ON test_clocks (account_id) WHERE target IS NOT NULL;

-- What time it is for an account when everyone else's time is `at`.
CREATE FUNCTION account_now(account uuid, at timestamptz) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        (SELECT coalesce(c.frozen_at, at + c.ahead_us * interval '1 microsecond') FROM test_clocks c WHERE c.account_id = account),
        at)
$$;

-- Whether an account's clock is being advanced: whatever falls due there is done by whoever advances it, in its right order.
CREATE FUNCTION is_advancing(account uuid) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT EXISTS (SELECT 1 FROM test_clocks c WHERE c.account_id = account AND c.target IS NOT NULL)
$$;
