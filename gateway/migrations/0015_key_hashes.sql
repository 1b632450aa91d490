-- Whether hashes of API keys are bound to their account. The former version does not know such hashes, so this begins with the
-- first `gateway reencrypt`; in a new installation at once.
CREATE TABLE gateway.key_hashes (
    -- There is one row.
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    bound  boolean NOT NULL
);
-- upgrade: writes to the new table only, and reads at most one row
INSERT INTO gateway.key_hashes (bound) SELECT NOT EXISTS (SELECT FROM gateway.accounts);
