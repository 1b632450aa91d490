-- The processes that run, each with how far its machine's clock is off: what one of them knows of itself, an operator can see from
-- any machine. Each writes its row every few seconds; one that has ended stops doing so.
CREATE TABLE processes (
    -- Kind, machine and process id.
    name                text PRIMARY KEY,
    kind                text NOT NULL,
    -- Positive if it is ahead of the database's; NULL if it could not be measured.
    clock_ahead_seconds double precision,
    seen_at             timestamptz NOT NULL
);
CREATE INDEX processes_seen ON processes (seen_at);
