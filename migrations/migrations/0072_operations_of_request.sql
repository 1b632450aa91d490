-- no-transaction
-- What a request has begun, by its Request-Id. These ids are in the order of time, so new entries go to the end of the index.
CREATE INDEX CONCURRENTLY IF NOT EXISTS operations_of_request ON operations (request_id) WHERE request_id IS NOT NULL;
