-- no-transaction
-- upgrade: the previous version's search uses the index above, which has all its rows.
DROP INDEX CONCURRENTLY IF EXISTS operations_by_provider_ref;
