-- no-transaction
-- The withdrawals in the mock's statement.
CREATE INDEX CONCURRENTLY IF NOT EXISTS disputes_booked ON mock.disputes (account, booked_at);
