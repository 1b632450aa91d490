-- Which key asked for what, so that money can be attributed. The version before this one writes and reads none of it.

ALTER TABLE api_keys
    -- When a request was last let in with this key, to the minute; NULL is never, or before this column.
    ADD COLUMN last_used_at timestamptz;

-- NULL is a row from before this column, or one that no key asked for: a payer on a page of ours, the schedule, a reversal.
-- The keys are checked in the next migration, so that no table is read under a strong lock.
ALTER TABLE operations
    ADD COLUMN requested_by_key uuid;
ALTER TABLE operations
    ADD CONSTRAINT operations_requested_by_key FOREIGN KEY (account_id, requested_by_key)
        REFERENCES api_keys (account_id, id) NOT VALID;
ALTER TABLE refunds
    ADD COLUMN requested_by_key uuid;
ALTER TABLE refunds
    ADD CONSTRAINT refunds_requested_by_key FOREIGN KEY (account_id, requested_by_key)
        REFERENCES api_keys (account_id, id) NOT VALID;
