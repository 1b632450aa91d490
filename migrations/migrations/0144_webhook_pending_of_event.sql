-- no-transaction
-- The deliveries to be marked when the object of their event is erased.
CREATE INDEX CONCURRENTLY IF NOT EXISTS webhook_pending_of_event ON webhook_pending (event_id);
