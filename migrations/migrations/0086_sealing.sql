-- Whether secrets are sealed for their table, column, account and row. The former version reads only those sealed for their
-- row, so this begins with the first `ctl reencrypt`; in a new installation at once.
CREATE TABLE sealing (
    -- There is one row.
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    bound  boolean NOT NULL
);
-- upgrade: writes to the new table only, and reads at most one row
INSERT INTO sealing (bound) SELECT NOT EXISTS (SELECT FROM accounts);
