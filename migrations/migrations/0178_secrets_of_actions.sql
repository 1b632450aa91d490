-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS user_actions_with_secret ON user_actions (began_at) WHERE secret IS NOT NULL;
