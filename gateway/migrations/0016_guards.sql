-- Until when a success holds the fingerprint, while the guard is that of another transaction in progress.
ALTER TABLE gateway.duplicate_guards ADD COLUMN success_until timestamptz;
