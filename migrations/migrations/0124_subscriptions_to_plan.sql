-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS subscriptions_to_plan ON subscriptions (account_id, plan_id, id);
