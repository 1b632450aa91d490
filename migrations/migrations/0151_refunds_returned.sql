-- no-transaction
-- What was returned on one day.
CREATE INDEX CONCURRENTLY IF NOT EXISTS refunds_returned ON refunds (account_id, finished_at)
    WHERE status = 'succeeded';
