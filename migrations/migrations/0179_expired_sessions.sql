-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS user_sessions_created ON user_sessions (created_at);
